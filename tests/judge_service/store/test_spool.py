"""Answered calls beside an SQLite file: there at once, in the database soon, and adopted from who was killed."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from judge_service.errors import StoreError
from judge_service.store import Store, spool
from judge_service.store.spool import Spool, adopt
from judge_service.store.types import json_text

from .examples import call


class Kept:
    """What a database would have."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str]] = []

    def __call__(self, entries: Sequence[tuple[str, str]]) -> None:
        self.entries.extend(entries)


def left(database: Path) -> list[Path]:
    return sorted(database.parent.glob("*.calls-*"))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "judge.sqlite3"


def test_a_file_is_made_when_needed_and_removed_when_everything_is_in_the_database(database: Path) -> None:
    one, kept = Spool(database), Kept()
    assert left(database) == []
    assert one.append("k1", "{}")
    (file,) = left(database)
    assert file.stat().st_mode & 0o777 == 0o600
    one.settle()
    one.close(kept)
    one.close(kept)
    assert (left(database), kept.entries) == ([], [])
    assert not one.append("k2", "{}")


def test_what_the_database_may_lack_is_brought_into_it_at_the_end(database: Path) -> None:
    one, kept = Spool(database), Kept()
    for key in ("k1", "k2"):
        one.append(key, f'{{"of": "{key}"}}')
    one.settle()
    one.close(kept)
    assert kept.entries == [("k1", '{"of": "k1"}'), ("k2", '{"of": "k2"}')]
    assert left(database) == []


def test_a_database_that_does_not_take_it_leaves_the_file_for_the_next(database: Path) -> None:
    def refuse(entries: Sequence[tuple[str, str]]) -> None:
        raise StoreError("The disk is full.")

    one, kept = Spool(database), Kept()
    one.append("k1", "{}")
    with pytest.raises(StoreError):
        one.close(refuse)
    with pytest.raises(StoreError):
        adopt(database, refuse)
    adopt(database, kept)
    assert (kept.entries, left(database)) == ([("k1", "{}")], [])


def test_the_file_of_a_living_one_is_left_alone(database: Path) -> None:
    one, kept = Spool(database), Kept()
    one.append("k1", "{}")
    adopt(database, kept)
    assert (kept.entries, len(left(database))) == ([], 1)
    one.close(kept)


def test_half_a_line_is_nothing_and_many_lines_come_in_parts(database: Path) -> None:
    file = database.with_name("judge.sqlite3.calls-0")
    file.write_text("".join(f"k{i} {{}}\n" for i in range(600)) + 'k600 {"a": ')
    parts: list[int] = []
    kept = Kept()

    def keep(entries: Sequence[tuple[str, str]]) -> None:
        parts.append(len(entries))
        kept(entries)

    adopt(database, keep)
    assert [key for key, _ in kept.entries] == [f"k{i}" for i in range(600)]
    assert max(parts) <= 256


def test_a_long_file_is_emptied_once_the_database_has_all_of_it(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "EMPTY_BYTES", 100)
    one, kept = Spool(database), Kept()
    text = "x" * 80
    one.append("k1", text)
    one.append("k2", text)
    (file,) = left(database)
    one.settle()
    assert file.stat().st_size == 168
    one.settle()
    assert file.stat().st_size == 0
    one.append("k3", text)
    one.close(kept)
    assert kept.entries == [("k3", text)]


def test_a_file_that_only_grows_takes_nothing_more(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MOST_BYTES", 10)
    one = Spool(database)
    assert one.append("k1", "{......}")
    assert not one.append("k2", "{}")
    one.close(Kept())


def test_a_full_disk_is_said_by_the_answer_and_tears_no_other_entry(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    one, kept = Spool(database), Kept()
    one.append("k1", "{}")
    with monkeypatch.context() as patched:
        patched.setattr("judge_service.store.spool.os.write", lambda handle, line: write(handle, line[:4]))
        assert not one.append("k2", '{"whole": true}')
    assert one.append("k3", "{}")
    with monkeypatch.context() as patched:

        def full(handle: int, line: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        patched.setattr("judge_service.store.spool.os.write", full)
        assert not one.append("k4", "{}")
    one.close(kept)
    # What was torn is half a record, which the cache tells from a call.
    assert kept.entries == [("k1", "{}"), ("k2", "{"), ("k3", "{}")]


KILLED = """
import asyncio, os, signal, sys
from judge_service.store import Store
from tests.judge_service.store.examples import call

async def keep():
    with Store.open(sys.argv[1]) as store:
        assert store.cache.put("a" * 64, call(raw="paid")) is None
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(keep())
"""


def test_a_killed_process_loses_no_call(database: Path) -> None:
    url = f"sqlite:///{database}"
    with Store.open(url) as living:
        killed = subprocess.run([sys.executable, "-c", KILLED, url], check=False)
        assert killed.returncode == -signal.SIGKILL
        assert len(left(database)) == 1
        assert living.cache.find("a" * 64) is None
        living.cache.adopt()
        found = living.cache.find("a" * 64)
        assert found is not None
        assert (found.raw, left(database)) == ("paid", [])
    assert subprocess.run([sys.executable, "-c", KILLED, url], check=False).returncode == -signal.SIGKILL
    with Store.open(url):
        assert left(database) == []


async def test_a_kept_call_is_found_at_once_and_by_others_with_the_next_commit(database: Path) -> None:
    url = f"sqlite:///{database}"
    with Store.open(url) as store, Store.open(url) as other:
        assert store.cache.put("k", call(raw="first")) is None
        assert store.cache.put("k", call(raw="second")) is None
        found = await store.cache.get("k")
        assert found is not None
        assert found.raw == "first"
        assert await other.cache.get("k") is None
        # The commit of another write takes it along.
        kept = store.cache._database.submit_async(lambda _, items: list(items), None, swift=True)
        await kept
        found = await other.cache.get("k")
        assert found is not None
        assert found.raw == "first"
    assert left(database) == []


async def test_half_a_record_is_no_call(database: Path) -> None:
    database.with_name("judge.sqlite3.calls-0").write_text('k {"raw": \nm []\n')
    with Store.open(f"sqlite:///{database}") as store:
        assert await store.cache.get("k") is None
        assert await store.cache.get("m") is None
    assert left(database) == []


async def test_half_a_surrogate_in_a_reply_is_adopted(database: Path) -> None:
    one = call(raw="half \ud800 of it")
    database.with_name("judge.sqlite3.calls-0").write_text(f"k {json_text(one)}\n")
    with Store.open(f"sqlite:///{database}") as store:
        assert await store.cache.get("k") == one
    assert left(database) == []
