"""Users, invitations and sessions as stored. Users are disabled, never deleted: their labels keep their name."""

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Connection, RowMapping, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from judge_service.domain.principal import Principal, Role
from judge_service.domain.user import Invitation, Session, User, name_key
from judge_service.errors import Conflict, NotFound
from judge_service.store.engine import Database
from judge_service.store.tables import InvitationRow, KeyRow, SessionRow, UserRow, table

USERS = table(UserRow)
INVITATIONS = table(InvitationRow)
SESSIONS = table(SessionRow)
KEYS = table(KeyRow)

KEPT = timedelta(days=30)
"""How long ended sessions are kept."""


class Users:
    """The tables of people. All methods are synchronous."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def add(self, user: User) -> User:
        """Store a new user. Raises Conflict when the name is taken, whatever its spelling."""
        return self._database.write(lambda connection: _insert(connection, user))

    def get(self, user_id: str) -> User | None:
        """A user by id."""
        with self._database.read() as connection:
            row = connection.execute(select(USERS).where(USERS.c.id == user_id)).mappings().one_or_none()
        return None if row is None else _user(row)

    def named(self, name: str) -> User | None:
        """A user by name; spelling differences that cannot be seen do not count."""
        query = select(USERS).where(USERS.c.name_key == name_key(name))
        with self._database.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else _user(row)

    def all(self) -> list[User]:
        """Every user, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(select(USERS)).mappings().all()
        return sorted(map(_user, rows), key=lambda user: (user.created_at, user.id))

    def set_password(self, user_id: str, password_hash: str) -> User:
        """Replace the password and end every session of the user. Raises NotFound."""
        return self._change(user_id, {"password_hash": password_hash}, end_sessions=True)

    def set_role(self, user_id: str, role: Role) -> User:
        """Replace the role; it counts from the next request on. Raises NotFound."""
        return self._change(user_id, {"role": role.value})

    def disable(self, user_id: str) -> User:
        """No sign-in from now on; sessions end. Labels stay. Twice is harmless. Raises NotFound."""
        return self._change(user_id, {"disabled_at": self._clock()}, end_sessions=True)

    def enable(self, user_id: str) -> User:
        """Sign-in is possible again. Raises NotFound."""
        return self._change(user_id, {"disabled_at": None})

    def invite(self, invitation: Invitation) -> Invitation:
        """Store a new invitation."""
        fields = invitation.model_dump() | {"role": invitation.role.value}

        def work(connection: Connection) -> Invitation:
            connection.execute(insert(INVITATIONS), fields)
            return invitation

        return self._database.write(work)

    def invitation(self, digest: str) -> Invitation | None:
        """An invitation by the digest of its token, used and expired ones too."""
        query = select(INVITATIONS).where(INVITATIONS.c.digest == digest)
        with self._database.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else Invitation.model_validate(dict(row))

    def invitations(self) -> list[Invitation]:
        """Every invitation, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(select(INVITATIONS)).mappings().all()
        found = [Invitation.model_validate(dict(row)) for row in rows]
        return sorted(found, key=lambda invitation: (invitation.created_at, invitation.id))

    def revoke_invitation(self, invitation_id: str) -> Invitation:
        """The link works no more; revoking a used one changes nothing. Raises NotFound."""

        def work(connection: Connection) -> Invitation:
            live = INVITATIONS.c.used_at.is_(None) & INVITATIONS.c.revoked_at.is_(None)
            change = update(INVITATIONS).where(INVITATIONS.c.id == invitation_id, live)
            connection.execute(change.values(revoked_at=self._clock()))
            query = select(INVITATIONS).where(INVITATIONS.c.id == invitation_id)
            row = connection.execute(query).mappings().one_or_none()
            if row is None:
                raise NotFound(f"There is no invitation with the id {invitation_id!r}.")
            return Invitation.model_validate(dict(row))

        return self._database.write(work)

    def accept(self, digest: str, user: User) -> Invitation:
        """Use an invitation for a new user, in one step. Raises NotFound when not usable, Conflict for the name."""

        def work(connection: Connection) -> Invitation:
            now = self._clock()
            usable = (
                INVITATIONS.c.used_at.is_(None) & INVITATIONS.c.revoked_at.is_(None) & (INVITATIONS.c.expires_at > now)
            )
            claim = update(INVITATIONS).where(INVITATIONS.c.digest == digest, usable)
            # The update decides who of two is first: the row stays locked until the commit.
            if connection.execute(claim.values(used_at=now, used_by=user.id)).rowcount != 1:
                raise NotFound("This invitation was used, has expired or was revoked. Ask for a new one.")
            _insert(connection, user)
            row = connection.execute(select(INVITATIONS).where(INVITATIONS.c.digest == digest)).mappings().one()
            return Invitation.model_validate(dict(row))

        return self._database.write(work)

    def begin(self, session: Session) -> Session:
        """Store a new session, note the sign-in, and forget sessions that ended long ago."""

        def work(connection: Connection) -> Session:
            old = session.created_at - KEPT
            connection.execute(delete(SESSIONS).where(or_(SESSIONS.c.expires_at < old, SESSIONS.c.ended_at < old)))
            connection.execute(insert(SESSIONS), session.model_dump())
            if session.user_id is not None:
                mine = update(USERS).where(USERS.c.id == session.user_id)
                connection.execute(mine.values(signed_in_at=session.created_at))
            return session

        return self._database.write(work)

    def session(self, session_id: str) -> tuple[Session, Principal] | None:
        """A session with who is behind it; None when it is unknown, or its user is disabled, or its key revoked."""
        query = (
            select(
                SESSIONS,
                USERS.c.name.label("user_name"),
                USERS.c.role.label("user_role"),
                USERS.c.disabled_at,
                KEYS.c.name.label("key_name"),
                KEYS.c.role.label("key_role"),
                KEYS.c.revoked_at,
            )
            .outerjoin(USERS, USERS.c.id == SESSIONS.c.user_id)
            .outerjoin(KEYS, KEYS.c.id == SESSIONS.c.key_id)
            .where(SESSIONS.c.id == session_id)
        )
        with self._database.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        if row is None or row["disabled_at"] is not None or row["revoked_at"] is not None:
            return None
        session = Session.model_validate({name: row[name] for name in Session.model_fields})
        by_user = session.user_id is not None
        principal = Principal(
            user_id=session.user_id,
            key_id=session.key_id,
            name=row["user_name" if by_user else "key_name"],
            role=Role(row["user_role" if by_user else "key_role"]),
            session=session.id,
        )
        return session, principal

    def touch(self, session_id: str) -> None:
        """Note that a session was used now. Does not wait for the commit."""
        change = update(SESSIONS).where(SESSIONS.c.id == session_id).values(seen_at=self._clock())
        self._database.submit(lambda connection: connection.execute(change).rowcount)

    def end(self, session_id: str) -> None:
        """End a session; an unknown or ended one is left as it is."""
        live = update(SESSIONS).where(SESSIONS.c.id == session_id, SESSIONS.c.ended_at.is_(None))
        self._database.write(lambda connection: connection.execute(live.values(ended_at=self._clock())).rowcount)

    def _change(self, user_id: str, values: dict[str, object], *, end_sessions: bool = False) -> User:
        def work(connection: Connection) -> User:
            connection.execute(update(USERS).where(USERS.c.id == user_id).values(**values))
            row = connection.execute(select(USERS).where(USERS.c.id == user_id)).mappings().one_or_none()
            if row is None:
                raise NotFound(f"There is no user with the id {user_id!r}.")
            if end_sessions:
                mine = update(SESSIONS).where(SESSIONS.c.user_id == user_id, SESSIONS.c.ended_at.is_(None))
                connection.execute(mine.values(ended_at=self._clock()))
            return _user(row)

        return self._database.write(work)


def _insert(connection: Connection, user: User) -> User:
    fields = user.model_dump() | {"role": user.role.value, "name_key": name_key(user.name)}
    try:
        with connection.begin_nested():
            connection.execute(insert(USERS), fields)
    except IntegrityError:
        raise Conflict(f"The name {user.name!r} is taken. Choose another one.") from None
    return user


def _user(row: RowMapping) -> User:
    return User.model_validate({name: row[name] for name in User.model_fields})
