"""The OpenAPI document: FastAPI's, with the key scheme and every error described as a problem."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from judge_service import __version__
from judge_service.api.documents import Problem, problems
from judge_service.gate.route import SECURITY_SCHEME

DESCRIPTION = """LLM judges whose verdicts carry their measured agreement with people.

Send `Authorization: Bearer <key>`. Errors are `application/problem+json` with a stable `code`, `errors` that name
fields, and the request id that the log has. A judge's failure is a result with the outcome `judge_error`, never an
error of the API.
"""


def document(app: FastAPI) -> dict[str, Any]:
    """The document of `app`, made once."""
    if app.openapi_schema is None:
        made = get_openapi(title="judge-service", version=__version__, description=DESCRIPTION, routes=app.routes)
        components = made.setdefault("components", {})
        components["securitySchemes"] = {
            SECURITY_SCHEME: {"type": "http", "scheme": "bearer", "description": "An API key, `jk_...`."}
        }
        schemas = components.setdefault("schemas", {})
        # FastAPI describes its own shape of validation errors; this service never sends that one.
        schemas.pop("HTTPValidationError", None)
        schemas.pop("ValidationError", None)
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(problem.pop("$defs"))
        schemas["Problem"] = problem
        for item in made["paths"].values():
            for operation in item.values():
                if "422" in operation["responses"]:
                    operation["responses"]["422"] = problems(422)[422]
        app.openapi_schema = made
    return app.openapi_schema
