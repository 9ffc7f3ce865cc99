"""The one tree of errors. An error's docstring is its default message; it knows its HTTP status and stable code.

Owns what callers may see. Library errors are translated into these at the edge where they occur.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one field: `path` such as `case.contexts[0]`, and a sentence that says what to do."""

    path: str
    message: str


class JudgeServiceError(Exception):
    """Something went wrong in the judge service. The log has the request id."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"

    def __init__(
        self,
        message: str | None = None,
        *,
        fields: Sequence[FieldProblem] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.message = message or " ".join((type(self).__doc__ or "").split())
        self.fields = tuple(fields)
        self.extra = dict(extra or {})
        super().__init__(self.message)


class InvalidInput(JudgeServiceError):
    """The input is not valid. See the listed fields."""

    status = 422
    code = "invalid_input"


class Malformed(JudgeServiceError):
    """The request body could not be read as JSON."""

    status = 400
    code = "malformed_request"


class Unauthenticated(JudgeServiceError):
    """A valid API key is needed, as bearer token in the header `Authorization`."""

    status = 401
    code = "unauthenticated"


class Forbidden(JudgeServiceError):
    """This key's role does not allow that. Ask an admin for a key with the needed role."""

    status = 403
    code = "forbidden"


class NotFound(JudgeServiceError):
    """There is nothing under that id."""

    status = 404
    code = "not_found"


class Conflict(JudgeServiceError):
    """The request conflicts with what is stored."""

    status = 409
    code = "conflict"


class NotCalibrated(Conflict):
    """No calibration supports this judge under this rubric, and the request demands one."""

    code = "not_calibrated"


class TooLarge(JudgeServiceError):
    """The request is larger than this service accepts."""

    status = 413
    code = "too_large"


class UnsupportedMediaType(JudgeServiceError):
    """The body has a content type that this route does not read."""

    status = 415
    code = "unsupported_media_type"


class RequestTimeout(JudgeServiceError):
    """The body stopped arriving. Send it again."""

    status = 408
    code = "request_timeout"


class RateLimited(JudgeServiceError):
    """Too many requests with this key. Wait as long as Retry-After says."""

    status = 429
    code = "rate_limited"


class Unavailable(JudgeServiceError):
    """The service cannot do that right now. Try again later."""

    status = 503
    code = "unavailable"


class JudgeUnavailable(Unavailable):
    """This judge cannot be used as it is configured. Ask the operator; other judges work."""

    code = "judge_unavailable"


class ProviderRefused(JudgeServiceError):
    """The provider refused the judge's own key. No verdict was made; the operator must mend the judge's key."""

    status = 502
    code = "provider_refused"


class ConfigurationError(JudgeServiceError):
    """The configuration is not usable as it is."""

    status = 500
    code = "configuration_error"


class MissingDependency(ConfigurationError):
    """An optional package is not installed."""

    code = "missing_dependency"


class MissingModel(Unavailable):
    """The embedded model is not installed. Run `judge-service models pull`."""

    code = "missing_model"


class StoreError(JudgeServiceError):
    """The database refused the operation."""

    code = "store_error"


class NewerDatabase(StoreError):
    """The database was written by a newer version of this program. Upgrade the program; nothing was changed."""

    code = "newer_database"
