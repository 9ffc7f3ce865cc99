from tests.judge_service.sets.conftest import file

__all__ = ["file"]
