"""A test that the documentation names is a test that is there."""

import re

from tests.docs.blocks import PAGES, ROOT

NAMED = re.compile(r"`(test_\w+)`")
FILES = re.compile(r"`(tests/[\w/]+\.py)`")


def test_every_named_test_and_file_is_there() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    there = set(re.findall(r"def (test_\w+)\(", code))
    named = {name for page in PAGES for name in NAMED.findall(page.read_text(encoding="utf-8"))}
    files = {name for page in PAGES for name in FILES.findall(page.read_text(encoding="utf-8"))}
    assert len(named) > 10
    assert named - there == set()
    assert [name for name in files if not (ROOT / name).is_file()] == []
