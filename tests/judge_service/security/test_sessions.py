from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.domain.principal import Role
from judge_service.security.passwords import hash_password, problem_with, verify_password
from judge_service.security.sessions import (
    csrf_matches,
    csrf_token,
    digest,
    in_force,
    invitation_digest,
    may_grant,
    new_invitation,
    new_session,
    safe_next,
    same_site,
    session_id,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_a_session_is_found_by_its_token_and_holds_none():
    session, token = new_session(user_id="a" * 12, key_id=None, now=NOW, absolute=5 * HOUR)
    assert session_id(token) == session.id == digest(token)
    assert token not in repr(session)
    assert token not in session.model_dump_json()
    assert session_id(token + "x") is None
    assert session_id("") is None


@pytest.mark.parametrize(
    ("after", "idle", "holds"),
    [
        (HOUR, 2 * HOUR, True),
        (2 * HOUR, 2 * HOUR, False),
        (5 * HOUR, 10 * HOUR, False),
        (5 * HOUR - HOUR / 2, 10 * HOUR, True),
    ],
)
def test_a_session_ends_when_idle_and_in_any_case(after, idle, holds):
    session, _ = new_session(user_id="a" * 12, key_id=None, now=NOW, absolute=5 * HOUR)
    assert in_force(session, NOW + after, idle) is holds
    assert not in_force(session.model_copy(update={"ended_at": NOW}), NOW + after, idle)


def test_form_tokens_are_bound_to_their_session():
    _, one = new_session(user_id="a" * 12, key_id=None, now=NOW, absolute=HOUR)
    _, other = new_session(user_id="a" * 12, key_id=None, now=NOW, absolute=HOUR)
    assert csrf_matches(one, csrf_token(one))
    assert not csrf_matches(one, csrf_token(other))
    assert not csrf_matches(one, None)
    assert not csrf_matches(one, "")
    assert not csrf_matches(one, "\udc80")
    assert one not in csrf_token(one)


def test_an_invitation_is_single_and_expires():
    invitation, token = new_invitation(role=Role.ANNOTATE, made_by="x", now=NOW, life=HOUR)
    assert invitation_digest(token) == invitation.digest
    assert invitation.usable(NOW)
    assert not invitation.usable(NOW + HOUR)
    assert not invitation.model_copy(update={"used_at": NOW}).usable(NOW)
    assert not invitation.model_copy(update={"revoked_at": NOW}).usable(NOW)
    assert token not in invitation.model_dump_json()


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/projects/3?case=1", "/projects/3?case=1"),
        (None, "/"),
        ("", "/"),
        ("projects", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/x\\y", "/"),
        ("https://evil.example/", "/"),
        ("/\t/evil.example", "/"),
        ("/x\nSet-Cookie: a=b", "/"),
        ("javascript:alert(1)", "/"),
        ("/sign-in?next=/sign-in", "/"),
        ("/sign-out", "/"),
    ],
)
def test_the_way_on_stays_on_this_site(path, kept):
    assert safe_next(path) == kept


@given(st.text(alphabet="/\\:.@?#ehttps \t\n%", max_size=12))
def test_no_spelling_leads_elsewhere(path):
    kept = safe_next(path)
    assert kept.startswith("/")
    assert not kept.startswith(("//", "/\\"))
    assert all(char not in kept for char in "\\\n\t ")


@pytest.mark.parametrize(
    ("fetch_site", "origin", "ours"),
    [
        ("same-origin", None, True),
        ("same-origin", "https://evil.example", True),
        ("same-site", "http://judge.test", False),
        ("cross-site", "http://judge.test", False),
        ("none", None, False),
        (None, "http://judge.test", True),
        (None, "http://judge.test.evil.example", False),
        (None, "null", False),
        (None, None, False),
        (None, "https://judge.example.org", True),
    ],
)
def test_who_asked_for_a_change(fetch_site, origin, ours):
    found = same_site(
        fetch_site=fetch_site, origin=origin, host="judge.test", public_origin="https://judge.example.org"
    )
    assert found is ours


def test_nobody_gives_more_than_they_have():
    assert may_grant(Role.LEAD, Role.LEAD)
    assert may_grant(Role.LEAD, Role.ANNOTATE)
    assert not may_grant(Role.LEAD, Role.ADMIN)
    assert not may_grant(Role.ANNOTATE, Role.LEAD)
    assert may_grant(Role.ADMIN, Role.ADMIN)


def test_passwords_are_hashed_with_a_salt_and_verified():
    stored = hash_password("grüne Wiese am Fluss")
    assert stored.startswith("$argon2id$")
    assert hash_password("grüne Wiese am Fluss") != stored
    assert verify_password(stored, "grüne Wiese am Fluss")
    assert not verify_password(stored, "grüne Wiese am fluss")
    assert not verify_password(None, "a hash that is nobody's")
    assert not verify_password("no hash", "x")


@pytest.mark.parametrize(
    "password", ["short", "aaaaaaaaaaaa", "password123456", "1234567890", "Ann Example", "x" * 201]
)
def test_easy_passwords_are_refused(password):
    assert problem_with(password, "Ann Example") is not None


def test_a_phrase_is_accepted():
    assert problem_with("four plain words here", "Ann Example") is None
