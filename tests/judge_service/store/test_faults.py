"""Which faults of a database are waited out, told by what drivers really say."""

import sqlite3

import pytest
from sqlalchemy.exc import OperationalError

from judge_service.errors import StoreError, Unavailable
from judge_service.store.faults import readable, transient

_AT = 'connection to server on socket "/run/.s.PGSQL.5432" failed: '


@pytest.mark.parametrize(
    "said",
    [
        "database is locked",
        "database table is locked: judgments",
        _AT + "No such file or directory\n\tIs the server running locally and accepting connections on that socket?",
        _AT + "Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?",
        "connection failed: " + _AT + "FATAL:  the database system is starting up",
        "connection failed: " + _AT + "FATAL:  the database system is shutting down",
        "connection failed: " + _AT + "FATAL:  the database system is in recovery mode",
        "connection failed: " + _AT + "FATAL:  sorry, too many clients already",
        "server closed the connection unexpectedly",
    ],
)
def test_what_goes_away_by_itself_is_waited_for(said: str) -> None:
    error = OperationalError("SELECT 1", {}, sqlite3.OperationalError(said))
    assert transient(error)
    assert isinstance(readable(error), Unavailable)


@pytest.mark.parametrize(
    "said",
    [
        "connection failed: " + _AT + 'FATAL:  password authentication failed for user "judge"',
        "connection failed: " + _AT + 'FATAL:  database "judges" does not exist',
        "no such table: judgments",
        "database or disk is full",
    ],
)
def test_what_stays_until_someone_mends_it_is_not(said: str) -> None:
    error = OperationalError("SELECT 1", {}, sqlite3.OperationalError(said))
    assert not transient(error)
    assert isinstance(readable(error), StoreError)
