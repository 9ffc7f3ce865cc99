"""What several processes agree on about a provider: slots, pace, pauses and tokens.

Owns how slots are divided: those of all members together never exceed the provider's, and none is without for long.
Each database says in a module of its own how that is kept. What a power cut undoes here would be a moment old.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete

from judge_service.store.engine import Database
from judge_service.store.tables import ProviderShareRow, table

SHARES = table(ProviderShareRow)
EXPIRY_S = 2.0
"""A member that gave no sign for so long is dead: its slots are free. One that lives begins no call by then."""
TURN_S = 2.0
"""How long a member keeps a slot that is left over when all have the same, while others wait for it."""
WINDOW_S = 60


@dataclass(frozen=True, slots=True)
class Share:
    """`slots`: what a member may use now. `target`: its fair part, towards which it must shrink."""

    slots: int
    target: int


@dataclass(frozen=True, slots=True)
class Member:
    """A living process: its slots, and for how many seconds it has had one of those left over, or has had none."""

    name: str
    slots: int
    since_s: float


@dataclass(frozen=True, slots=True)
class Division:
    """`limit` slots over one member, which has `using` calls in flight, and the `others` that live.

    A member that wants no more than `wanted` leaves half of its part free, so that one that comes or has more to do
    need not wait for it. None: it wants all it can have.

    Whoever has waited longest gets a slot that is left over. By what was had and not by the time of day: of calls that
    last as long as a round takes, those of one member would end each time when it is its turn again.
    """

    limit: int
    member: Member
    others: Sequence[Member]
    using: int
    wanted: int | None

    def share(self) -> Share:
        """The member's share now."""
        left_over = self.limit - self._even * (1 + len(self.others))
        first = sorted((self.member, *self.others), key=self._rank)[:left_over]
        target = self._even + (self.member in first)
        most = target if self.wanted is None else max(self.wanted, target // 2)
        free = self.limit - sum(other.slots for other in self.others)
        return Share(max(self.using, min(target, most, free)), target)

    def turns(self, share: Share) -> bool:
        """True when with `share` the member comes to one of the slots left over, or has none any more."""
        return (self.member.slots > self._even) != (share.slots > self._even)

    @property
    def _even(self) -> int:
        return self.limit // (1 + len(self.others))

    def _rank(self, member: Member) -> tuple[int, float, str]:
        """Those whose turn it is, those who wait, the longest first, and those who have had their turn."""
        if member.slots <= self._even:
            return 1, -member.since_s, member.name
        # A time in the future is of a clock that was set back since.
        return 0 if 0 <= member.since_s < TURN_S else 2, member.since_s, member.name


class SharedLimits(ABC):
    """Limits of providers by key, shared by members (processes). All methods block, but for `ask_held`."""

    def __init__(self, database: Database, *, expiry_s: float = EXPIRY_S) -> None:
        self._database = database
        self.expiry_s = expiry_s
        """Seconds without a sign after which a member's slots are given to others."""

    def share(self, key: str, member: str, limit: int, using: int, wanted: int | None = None) -> Share:
        """Give a sign of life with `using` calls in flight, and get this member's share of `limit` slots.

        With `wanted` it is no more than that or half of its fair part, whichever is more.
        """

        def work(connection: Connection) -> Share:
            living = self._living(connection, key)
            mine = next((one for one in living if one.name == member), Member(member, 0, 0.0))
            division = Division(limit, mine, [one for one in living if one.name != member], using, wanted)
            share = division.share()
            self._beat(connection, key, member, share.slots, turns=division.turns(share))
            return share

        return self._database.write(work, swift=True)

    def leave(self, key: str, member: str) -> None:
        """Give a member's slots back."""
        gone = delete(SHARES).where(SHARES.c.key == key, SHARES.c.member == member)
        self._database.write(lambda connection: connection.execute(gone).rowcount, swift=True)

    @abstractmethod
    def hold(self, key: str, seconds: float) -> None:
        """No call to this provider for `seconds` from now, by anyone."""

    @abstractmethod
    def held(self, keys: Sequence[str]) -> Mapping[str, float]:
        """Seconds until each provider may be called again; those that may be called now are left out."""

    @abstractmethod
    async def ask_held(self, keys: Sequence[str]) -> Mapping[str, float] | None:
        """`held` for the running event loop; None where it must be asked in a thread."""

    @abstractmethod
    def reserve(self, key: str, per_minute: int) -> float:
        """Reserve the next start at an even pace of `per_minute`; the seconds until it."""

    @abstractmethod
    def spend(self, key: str, tokens: int) -> None:
        """Count tokens that a call used."""

    @abstractmethod
    def token_wait(self, key: str, per_minute: int) -> float:
        """Seconds until the tokens of the last minute may be below `per_minute`; 0.0 when they are."""

    @abstractmethod
    def _living(self, connection: Connection, key: str) -> Sequence[Member]:
        """Forget the dead members of a provider and return the others; no other member does so until the commit."""

    @abstractmethod
    def _beat(self, connection: Connection, key: str, member: str, slots: int, *, turns: bool) -> None:
        """Note a sign of life; `turns`: the member comes to a slot left over now, or has none from now on."""


def token_wait(spent: int, per_minute: int, seconds: float) -> float:
    """The wait where the tokens `spent` in the window are too many; the oldest leave it in so many `seconds`."""
    return max(0.05, seconds) if spent >= per_minute else 0.0
