from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from judge_service.domain.principal import Role
from judge_service.domain.user import User
from judge_service.errors import Conflict, NotFound
from judge_service.security.keys import issue
from judge_service.security.sessions import digest, new_id, new_invitation, new_session
from judge_service.store import Store
from judge_service.store.store import utc_now


def user(name: str = "Ann", role: Role = Role.ANNOTATE) -> User:
    return User(id=new_id(), name=name, role=role, password_hash="$argon2id$x", created_at=utc_now())


def test_a_user_comes_back_and_a_name_is_taken_once(store: Store) -> None:
    ann = store.users.add(user("Ann  Éxample"))
    assert ann.name == "Ann Éxample"
    assert store.users.get(ann.id) == ann
    assert store.users.named("ANN éxample") == ann
    with pytest.raises(Conflict):
        store.users.add(user("ann ÉXAMPLE"))
    assert store.users.all() == [ann]


def test_a_session_gives_its_person_until_it_ends(store: Store) -> None:
    ann = store.users.add(user())
    session, token = new_session(user_id=ann.id, key_id=None, now=utc_now(), absolute=timedelta(hours=1))
    store.users.begin(session)
    found = store.users.session(digest(token))
    assert found is not None
    assert found[1].user_id == ann.id
    assert found[1].key_id is None
    assert found[1].id == f"user:{ann.id}"
    assert found[1].role is Role.ANNOTATE
    named = store.users.get(ann.id)
    assert named is not None
    assert named.signed_in_at is not None
    store.users.end(session.id)
    ended = store.users.session(session.id)
    assert ended is not None
    assert ended[0].ended_at is not None


def test_disabled_people_and_revoked_keys_have_no_session(store: Store) -> None:
    ann = store.users.add(user())
    key, _ = issue("nightly", Role.LEAD)
    store.keys.add(key)
    mine, _ = new_session(user_id=ann.id, key_id=None, now=utc_now(), absolute=timedelta(hours=1))
    by_key, _ = new_session(user_id=None, key_id=key.id, now=utc_now(), absolute=timedelta(hours=1))
    store.users.begin(mine)
    store.users.begin(by_key)
    found = store.users.session(by_key.id)
    assert found is not None
    assert found[1].key_id == key.id
    assert found[1].role is Role.LEAD
    store.users.disable(ann.id)
    store.keys.revoke(key.id)
    assert store.users.session(mine.id) is None
    assert store.users.session(by_key.id) is None
    store.users.enable(ann.id)
    again = store.users.session(mine.id)
    assert again is not None
    assert again[0].ended_at is not None


def test_of_many_at_once_one_uses_an_invitation(store: Store) -> None:
    invitation, _ = new_invitation(role=Role.LEAD, made_by="test", now=utc_now())
    store.users.invite(invitation)

    def accept(number: int) -> bool:
        try:
            store.users.accept(invitation.digest, user(f"Person {number}", Role.LEAD))
        except NotFound:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(accept, range(20))) == 1
    assert len(store.users.all()) == 1


def test_a_taken_name_does_not_use_the_invitation_up(store: Store) -> None:
    store.users.add(user("Ann"))
    invitation, _ = new_invitation(role=Role.LEAD, made_by="test", now=utc_now())
    store.users.invite(invitation)
    with pytest.raises(Conflict):
        store.users.accept(invitation.digest, user("ann"))
    assert store.users.accept(invitation.digest, user("Bob")).used_at is not None
    with pytest.raises(NotFound):
        store.users.accept(invitation.digest, user("Cy"))


def test_a_new_password_ends_the_sessions(store: Store) -> None:
    ann = store.users.add(user())
    session, _ = new_session(user_id=ann.id, key_id=None, now=utc_now(), absolute=timedelta(hours=1))
    store.users.begin(session)
    assert store.users.set_password(ann.id, "$argon2id$y").password_hash == "$argon2id$y"
    found = store.users.session(session.id)
    assert found is not None
    assert found[0].ended_at is not None
    with pytest.raises(NotFound):
        store.users.set_role("nobody", Role.LEAD)
