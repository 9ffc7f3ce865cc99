"""Errors as RFC 9457 problem details with a stable `code`, field paths and the request id.

Owns the only way an error leaves the service. Nothing internal gets through: an error of status 500 is told by
its default sentence, and what happened is in the log under the request id.
"""

import json
import logging
import traceback
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from judge_service.errors import FieldProblem, JudgeServiceError, RateLimited, Unavailable
from judge_service.gate.fields import field_problems
from judge_service.telemetry import redact

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 5
"""What a caller is asked to wait when an error does not say."""
_RESERVED = frozenset({"type", "title", "status", "detail", "code", "errors", "request_id"})
_CODES = {
    400: "malformed_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
}
_log = logging.getLogger("judge_service.gate")


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}
"""Names that differ between versions of Python's own table."""


def problem_response(
    status: int,
    code: str,
    detail: str,
    *,
    request_id: str | None,
    fields: Sequence[FieldProblem] = (),
    extra: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """One problem as a response. `errors` is always there, empty where no single field is to blame."""
    body: dict[str, Any] = {
        "type": f"urn:judge-service:problem:{code}",
        "title": _TITLES.get(status) or HTTPStatus(status).phrase,
        "status": status,
        "detail": _printable(redact(detail)),
        "code": code,
        "errors": [{"path": _printable(field.path), "message": _printable(redact(field.message))} for field in fields],
        "request_id": request_id,
    }
    body.update({key: value for key, value in (extra or {}).items() if key not in _RESERVED})
    content = json.dumps(body, allow_nan=False, default=str).encode()
    return Response(content, status_code=status, media_type=MEDIA_TYPE, headers=dict(headers or {}))


def error_response(error: JudgeServiceError, request_id: str | None) -> Response:
    """A domain error as a problem. What may be tried again carries Retry-After."""
    headers: dict[str, str] = {}
    extra = dict(error.extra)
    if isinstance(error, RateLimited | Unavailable):
        headers["Retry-After"] = str(extra.pop("retry_after", RETRY_AFTER_S))
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="judge-service"'
    if error.status != HTTPStatus.INTERNAL_SERVER_ERROR:
        return problem_response(
            error.status,
            error.code,
            error.message,
            request_id=request_id,
            fields=error.fields,
            extra=extra,
            headers=headers,
        )
    log_unexpected(error, request_id)
    sentence = " ".join((type(error).__doc__ or "").split())
    return problem_response(error.status, error.code, sentence, request_id=request_id)


def unexpected_response(error: BaseException, request_id: str | None) -> Response:
    """Whatever nobody foresaw: logged, and told without a word about the inside."""
    log_unexpected(error, request_id)
    return error_response_for_internal(request_id)


def error_response_for_internal(request_id: str | None) -> Response:
    """The plain 500."""
    detail = " ".join((JudgeServiceError.__doc__ or "").split())
    return problem_response(500, JudgeServiceError.code, detail, request_id=request_id)


def log_unexpected(error: BaseException, request_id: str | None) -> None:
    """One redacted log record with the traceback, whatever formatter the installation uses."""
    trace = redact("".join(traceback.format_exception(error)))
    _log.error("request %s failed: %s\n%s", request_id, type(error).__name__, trace)


def _request_id(request: Request) -> str | None:
    value = getattr(request.state, "request_id", None)
    return value if isinstance(value, str) else None


async def _on_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, JudgeServiceError):
        return unexpected_response(error, _request_id(request))
    return error_response(error, _request_id(request))


async def _on_validation(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        return unexpected_response(error, _request_id(request))
    fields = field_problems(error.errors())
    first = fields[0].message if fields else "The request is not valid."
    more = f" ({len(fields)} fields are not valid.)" if len(fields) > 1 else ""
    return problem_response(422, "invalid_input", first + more, request_id=_request_id(request), fields=fields)


async def _on_http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return unexpected_response(error, _request_id(request))
    detail = {
        404: f"There is nothing at {request.url.path}.",
        405: f"{request.method} is not possible at {request.url.path}.",
    }.get(error.status_code, str(error.detail))
    return problem_response(
        error.status_code,
        _CODES.get(error.status_code, "http_error"),
        detail,
        request_id=_request_id(request),
        headers=error.headers,
    )


def install(app: FastAPI) -> None:
    """Make `app` answer every error as a problem."""
    app.add_exception_handler(JudgeServiceError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
