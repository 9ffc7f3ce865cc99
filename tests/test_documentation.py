"""Every module says what it owns; every public name says its contract."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("judge_service", "rubrics", "calibration")
MODULES = sorted(
    path.relative_to(ROOT)
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if "migrations/versions" not in path.as_posix()
)
LONGEST_OPENING = 8
"""Lines of a module's opening: it states what the module owns and must not know, and stops."""


def public(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Public functions and classes of a module, and the public methods of its public classes."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node.name, node
            if isinstance(node, ast.ClassDef):
                for part in node.body:
                    if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) and not part.name.startswith("_"):
                        yield f"{node.name}.{part.name}", part


def overload(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(isinstance(item, ast.Name) and item.id == "overload" for item in decorators)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_module_and_public_names_are_documented(module: Path) -> None:
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    opening = ast.get_docstring(tree)
    assert opening, f"{module} does not say what it owns"
    assert len(opening.splitlines()) <= LONGEST_OPENING, f"{module} opens with more than {LONGEST_OPENING} lines"
    missing = [name for name, node in public(tree) if not overload(node) and not ast.get_docstring(node)]
    assert not missing, f"{module}: no contract for {', '.join(missing)}"


def test_there_is_something_to_check() -> None:
    assert len(MODULES) > 40
