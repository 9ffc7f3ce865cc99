"""A judge service elsewhere, as the command line asks it: start a run, wait for it, read its report.

Owns which errors of HTTP become which sentence. The key comes from the environment and is never shown.
"""

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from judge_service.errors import ConfigurationError, FieldProblem, InvalidInput, JudgeServiceError, Unavailable

if TYPE_CHECKING:
    import httpx

KEY_VARIABLE = "JUDGE_KEY"
"""Environment variable that holds the key of the service."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0


class Remote:
    """One service. Close it, or use it as a context manager. Raises InvalidInput for what is no HTTP address."""

    def __init__(
        self,
        url: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        transport: "httpx.BaseTransport | None" = None,
    ) -> None:
        import httpx

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise InvalidInput(fields=[FieldProblem("--url", "must be http:// or https:// and a host, without a user")])
        key = os.environ.get(KEY_VARIABLE)
        if not key:
            raise ConfigurationError(f"The key of the service is not set: put it into {KEY_VARIABLE}.")
        self._host = parts.netloc
        self._sleep, self._monotonic = sleep, monotonic
        self._client = httpx.Client(
            base_url=url.rstrip("/"), headers={"Authorization": f"Bearer {key}"}, timeout=60.0, transport=transport
        )

    def __enter__(self) -> "Remote":
        """The service itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._client.close()

    def report(self, run_id: str, *, compare: str | None, mix: bool) -> dict[str, Any]:
        """The report of a run."""
        query = {"mix": str(mix).lower()} | ({} if compare is None else {"compare": compare})
        return self._ask("GET", f"/v1/runs/{run_id}/report", params=query)

    def start(self, cases: bytes, rubric: str, judge: str, source: str) -> str:
        """Start a run over cases as JSON lines; its id."""
        query = {"rubric": rubric, "judge": judge, "source": source[:200], "unknown_fields": "keep"}
        headers = {"Content-Type": "application/x-ndjson"}
        return str(self._ask("POST", "/v1/runs", params=query, content=cases, headers=headers)["id"])

    def wait(self, run_id: str, timeout_s: float) -> None:
        """Return when the run has ended. Raises Unavailable after `timeout_s`."""
        until = self._monotonic() + timeout_s
        pause = _FIRST_WAIT_S
        while self._ask("GET", f"/v1/runs/{run_id}")["status"] in ("queued", "running", "cancelling"):
            if self._monotonic() >= until:
                raise Unavailable(f"Run {run_id} had not ended after {timeout_s:g} s. It goes on there.")
            self._sleep(pause)
            pause = min(_LONGEST_WAIT_S, 2 * pause)

    def _ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        import httpx

        try:
            answer = self._client.request(method, path, **options)
            found = answer.json()
        except httpx.HTTPError as error:
            raise Unavailable(f"{self._host} does not answer: {type(error).__name__}.") from error
        except ValueError as error:
            raise Unavailable(f"{self._host} gave no JSON (status {answer.status_code}).") from error
        if not isinstance(found, dict):
            raise Unavailable(f"{self._host} gave no JSON object (status {answer.status_code}).")
        if answer.status_code >= 400:
            detail = found.get("detail") or "no reason given"
            message = f"{self._host} answered {answer.status_code}: {detail}"
            raise JudgeServiceError(message, fields=_fields(found.get("errors")))
        return found


def _fields(errors: Any) -> list[FieldProblem]:
    named = [item for item in errors or () if isinstance(item, dict)]
    return [FieldProblem(str(item.get("path")), str(item.get("message"))) for item in named]
