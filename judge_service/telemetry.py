"""Logging of the service: one line a record on standard error, secrets removed before anything is written."""

import logging
import re
import sys

_SECRETS = re.compile(
    r"(?i)(?P<head>bearer\s+|(?:api[_-]?key|key|token|secret|password|authorization)[\"']?\s*[=:]\s*[\"']?)"
    r"(?P<value>[^\s\"'&,;]{6,})"
    r"|\b(?:sk|jk|ji|js|pk|rk)[-_][A-Za-z0-9_-]{6,}"
)


def redact(text: str) -> str:
    """`text` with anything that looks like a credential replaced by `***`."""
    return _SECRETS.sub(lambda match: (match["head"] or "") + "***", text)


class RedactingFormatter(logging.Formatter):
    """Formats a record, traceback included, and redacts the result."""

    def format(self, record: logging.LogRecord) -> str:
        """The finished line without secrets."""
        return redact(super().format(record))


def configure_logging(level: str = "INFO") -> None:
    """Send the service's log to standard error at `level`. Calling it again replaces the handler."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("alembic", "httpx", "httpcore", "LiteLLM", "openai"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
