"""Every setting, command, option, figure, rubric, judge, judge field and section is documented."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from calibration.agreement_table import COUNTS, KAPPAS, PERCENTAGES
from judge_service.backends.catalog import BACKENDS
from judge_service.backends.embedded import EmbeddedOptions
from judge_service.backends.transport import ProviderOptions
from judge_service.cli.main import app
from judge_service.domain.judge import ConfidenceSource, Judge, Limits, OrderPolicy, Sampling
from judge_service.domain.outcome import Enforcement, Outcome
from judge_service.domain.principal import Role
from judge_service.judging.roster import BUILT_IN
from judge_service.reports.sections import SECTIONS
from judge_service.settings import Settings
from tests.docs.blocks import ROOT

DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def rows(text: str) -> set[str]:
    """Everything in code marks in the first column of tables."""
    return {name for line in re.findall(r"^\| (.*?) \|", text, re.MULTILINE) for name in re.findall(r"`([^`]+)`", line)}


def test_every_setting_is_documented_and_nothing_else_is() -> None:
    settings = {f"JUDGE_SERVICE_{name.upper()}" for name in Settings.model_fields}
    assert rows(page("settings.md")) == settings


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_says_what_it_is(name: str) -> None:
    assert Settings.model_fields[name].description


def test_documented_defaults_of_settings_are_true() -> None:
    text = page("settings.md")
    for name, info in Settings.model_fields.items():
        if isinstance(info.default, (int, str)):
            assert f"| `JUDGE_SERVICE_{name.upper()}` | {info.default} |" in text, name


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name, part in command.commands.items():
            yield from leaves(part, (*path, name))
    else:
        yield " ".join(path), command


COMMANDS = dict(leaves(get_command(app)))


def parts() -> dict[str, str]:
    """The text under each command's heading."""
    pieces = re.split(r"^## judge-service (.+)$", page("command-line.md"), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def test_every_command_has_its_heading_and_no_other_has() -> None:
    assert set(parts()) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented_and_no_other_is(name: str) -> None:
    options = [item for item in COMMANDS[name].params if item.param_type_name == "option" and item.name != "help"]
    documented = {word.split()[0] for word in rows(parts()[name])}
    assert documented == {text for item in options for text in item.opts}
    for parameter in COMMANDS[name].params:
        assert getattr(parameter, "help", None), f"{name}: {parameter.name} does not say what it is"


def test_exit_codes_are_documented() -> None:
    assert all(f"| {code} |" in page("command-line.md") for code in (0, 1, 2, 130, 143))


def test_every_figure_of_agreement_is_defined() -> None:
    assert rows(page("statistics/agreement.md")) >= {*COUNTS, *PERCENTAGES, *KAPPAS, "n", "flags"}


def test_every_judge_and_judge_field_is_documented() -> None:
    text = page("judges.md")
    names = rows(text)
    assert {judge.name for judge in BUILT_IN} <= names
    assert set(Judge.model_fields) - {"name"} <= names
    for model in (Sampling, Limits):
        assert all(f"`{name}`" in text for name in model.model_fields), model.__name__
    for kind in (OrderPolicy, ConfidenceSource, Enforcement):
        assert all(f"`{item.value}`" in text for item in kind), kind.__name__


def test_every_backend_and_its_common_options_are_documented() -> None:
    text = page("judges.md")
    assert all(f"`{name}`" in text or f"### {name}" in text for name in BACKENDS)
    for model in (ProviderOptions, EmbeddedOptions):
        assert all(f"`{name}`" in text for name in model.model_fields), model.__name__


def test_outcomes_and_roles_are_documented() -> None:
    text = page("api.md")
    assert all(f"| `{item.value}` |" in text for kind in (Outcome, Role) for item in kind)


def test_every_route_is_listed_and_no_other_is() -> None:
    from judge_service.api.routers import ROUTERS

    routes = {
        f"{method} {route.path}"  # type: ignore[attr-defined]
        for router in ROUTERS
        for route in router.routes
        for method in route.methods  # type: ignore[attr-defined]
        if route.include_in_schema  # type: ignore[attr-defined]
    }
    listed = {name for name in rows(page("api.md")) if re.match(r"[A-Z]+ /", name)}
    assert listed == routes


def test_every_section_of_a_report_says_what_it_shows() -> None:
    for section in SECTIONS:
        assert section.TITLE
        assert section.ID
        assert inspect.getdoc(section.build)
