"""Options that several commands share, and how they become settings."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from judge_service.settings import Settings

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="Database to use, such as sqlite:///judgments.sqlite3. Default: that of the settings.",
    ),
]
JudgeNameArgument = Annotated[str, typer.Argument(help="Name of the judge, as in `judge-service judges list`.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]


AgainOption = Annotated[
    bool,
    typer.Option("--again", help="Look at a release split a second time: recorded as tuning, it becomes development."),
]
"""A second look at a release split."""

ResamplesOption = Annotated[
    int, typer.Option(metavar="N", min=100, max=100_000, help="Resamples of a bootstrap; figures say it when fewer.")
]
"""How often a bootstrap draws."""


def settings_for(database: str | None = None, *, processes: int | None = None) -> "Settings":
    """The settings of this installation; what is given replaces what the environment says.

    Raises ConfigurationError naming the environment variable that is wrong.
    """
    from pydantic import ValidationError

    from judge_service.errors import ConfigurationError, FieldProblem
    from judge_service.settings import Settings

    given: dict[str, Any] = {"database_url": database, "processes": processes}
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise ConfigurationError(
            "The settings are not usable as they are.",
            fields=[
                FieldProblem(f"JUDGE_SERVICE_{'_'.join(str(part) for part in item['loc']).upper()}", item["msg"])
                for item in error.errors(include_url=False, include_input=False)
            ],
        ) from error
