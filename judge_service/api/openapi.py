"""The OpenAPI document: FastAPI's, with the key scheme and every error described as a problem."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from judge_service import __version__
from judge_service.api.documents import Problem, problems
from judge_service.api.routers import ROUTERS
from judge_service.gate.route import SECURITY_SCHEME, GuardedRoute

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
        _restore_examples(made)
        app.openapi_schema = made
    return app.openapi_schema


def _restore_examples(made: dict[str, Any]) -> None:
    """Put the routes' examples back as they are: FastAPI drops every null from the document, also inside them."""
    for route in (route for router in ROUTERS for route in router.routes if isinstance(route, GuardedRoute)):
        for method in route.methods or ():
            described = made["paths"].get(route.path_format, {}).get(method.lower(), {}).get("responses", {})
            for status, response in route.responses.items():
                for media, content in response.get("content", {}).items():
                    if "example" in content and str(status) in described:
                        described[str(status)]["content"][media]["example"] = content["example"]
