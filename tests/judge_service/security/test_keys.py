import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.domain.principal import Role
from judge_service.security.keys import fingerprint, issue, key_id, verify
from judge_service.telemetry import redact

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_an_issued_key_verifies_as_its_principal():
    stored, plain = issue("pipeline", Role.SCORE, now=NOW)
    assert re.fullmatch(r"jk_[a-z0-9]{12}_[A-Za-z0-9]{40}", plain)
    assert key_id(plain) == stored.id
    principal = verify(stored, plain)
    assert principal is not None
    assert (principal.key_id, principal.name, principal.role) == (stored.id, "pipeline", Role.SCORE)
    assert stored.created_at == NOW


def test_what_is_stored_does_not_hold_the_secret():
    stored, plain = issue("pipeline", Role.ADMIN)
    secret = plain.split("_")[2]
    assert secret not in stored.model_dump_json()
    assert stored.last_four == secret[-4:]
    assert stored.salt not in repr(stored)
    assert stored.digest not in repr(stored)


def test_two_keys_share_neither_id_nor_salt():
    first, second = issue("a", Role.SCORE)[0], issue("a", Role.SCORE)[0]
    assert first.id != second.id
    assert first.salt != second.salt


def test_a_revoked_key_is_no_key():
    stored, plain = issue("pipeline", Role.SCORE)
    assert verify(stored.model_copy(update={"revoked_at": NOW}), plain) is None


def test_every_changed_character_is_refused():
    stored, plain = issue("pipeline", Role.SCORE)
    for position in range(len(plain)):
        changed = plain[:position] + ("x" if plain[position] != "x" else "y") + plain[position + 1 :]
        assert verify(stored, changed) is None


def test_another_keys_secret_does_not_open_this_one():
    stored, _ = issue("a", Role.SCORE)
    _, other = issue("b", Role.SCORE)
    assert verify(stored, f"jk_{stored.id}_{other.split('_')[2]}") is None
    assert verify(None, other) is None


@given(st.text())
def test_no_text_verifies_and_none_breaks(text):
    stored, _ = issue("a", Role.SCORE)
    assert verify(stored, text) is None
    assert len(fingerprint(text)) == 32


@pytest.mark.parametrize("name", ["", "x" * 121, "line\nbreak", "nul\x00"])
def test_an_unusable_name_is_refused(name):
    with pytest.raises(ValueError, match="name"):
        issue(name, Role.SCORE)


def test_redaction_knows_the_shape_of_a_key():
    _, plain = issue("a", Role.SCORE)
    for line in (f"Authorization: Bearer {plain}", f"key {plain} refused", f"GET /?api_key={plain}"):
        assert plain.split("_")[2] not in redact(line)
