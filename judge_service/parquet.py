"""Parquet's library, imported when it is first needed, with a sentence where it is not installed."""

from typing import Any

from judge_service.errors import MissingDependency


def pyarrow_parquet() -> Any:
    """The module `pyarrow.parquet`. Raises MissingDependency that says what to install."""
    try:
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "Parquet needs the extra `parquet`: pip install 'judge-service[parquet]'. JSON lines and CSV work without."
        ) from error
    return parquet
