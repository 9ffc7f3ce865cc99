"""The service in the process and clients with a key of a role, as the tests of the API have them."""

from tests.judge_service.api.conftest import app, connect, service, settings

__all__ = ["app", "connect", "service", "settings"]
