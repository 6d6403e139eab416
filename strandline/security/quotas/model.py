"""Quotas in Kafka's form: for whom they are, what they limit, and which of them holds for a caller (KIP-13,
KIP-55, KIP-257, KIP-599, KIP-612).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from strandline.errors import InvalidRequest
from strandline.room import one_host
from strandline.security.principal import USER
from strandline.security.quotas.addresses import check_address, one_spelling

DEFAULT: Final = ""
"""As the name of a user, a client id or an address: each one that has no quota of its own. No user has this
name, and Kafka names the default when a client gives no id."""
DEFAULT_SHOWN: Final = "<default>"
NAME_CHARS_MAX: Final = 1_000
"""The longest user or client id that a quota may be for. It has room for the subject of a certificate."""
RATE_MIN: Final = 1e-6
"""The least limit: with less, what a caller owes takes longer to pay for than numbers can say."""
RATE_MAX: Final = 2**53
"""The largest limit: larger whole numbers are not exact as a float, which Kafka's protocol has for them."""
CONNECTIONS_MAX: Final = 2**31 - 1
"""The largest limit of connections: Kafka has 32 bits for it."""


class Quota(StrEnum):
    """What is limited, with Kafka's names."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    """Bytes a second that a broker takes from producers."""
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    """Bytes a second that a broker gives to consumers."""
    REQUEST_PERCENTAGE = "request_percentage"
    """Of a broker's time: 100 is all the time of its event loop."""
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    """Partitions a second that the active controller creates or deletes."""
    CONNECTION_CREATION_RATE = "connection_creation_rate"
    """Connections a second that a broker takes from an address at its Kafka ports."""

    @property
    def unit(self) -> float:
        """What one of the limit is in what is counted: a percent is a hundredth of a second of work."""
        return 0.01 if self is Quota.REQUEST_PERCENTAGE else 1.0

    @property
    def limit_max(self) -> int:
        return CONNECTIONS_MAX if self is Quota.CONNECTION_CREATION_RATE else RATE_MAX


_WHOLE: Final = {
    Quota.PRODUCER_BYTE_RATE: "bytes",
    Quota.CONSUMER_BYTE_RATE: "bytes",
    Quota.CONNECTION_CREATION_RATE: "connections",
}
"""Limits that are whole numbers, and of what."""
_OF_ADDRESSES: Final = frozenset((Quota.CONNECTION_CREATION_RATE,))
_OF_CALLERS: Final = frozenset(Quota) - _OF_ADDRESSES


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Whom a quota is for: a user, a client id, a user with a client id, or an address, which is in its one
    spelling. None: any, together with all others. DEFAULT: any, each alone. Raises InvalidRequest."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __post_init__(self) -> None:
        if self.user is None and self.client_id is None and self.ip is None:
            raise InvalidRequest("a quota is for a user, a client id, both, or an address: name one")
        if self.ip is not None:
            _check_alone(self.user, self.client_id)
            if self.ip != DEFAULT:
                object.__setattr__(self, "ip", check_address(self.ip))
        for name in (self.user, self.client_id):
            if name is not None and len(name) > NAME_CHARS_MAX:
                raise InvalidRequest(
                    f"{name[:32]!r}… has {len(name)} characters, more than {NAME_CHARS_MAX}",
                    limit=NAME_CHARS_MAX,
                )
            if name is not None and not name.isprintable():
                raise InvalidRequest(f"{name!r} has characters that cannot be printed")

    def __lt__(self, other: QuotaEntity) -> bool:
        return _order(self) < _order(other)

    @property
    def quotas(self) -> frozenset[Quota]:
        """Those that it may have."""
        return _OF_CALLERS if self.ip is None else _OF_ADDRESSES

    def check_has(self, quota: Quota) -> None:
        """Raises InvalidRequest."""
        if quota not in self.quotas:
            there = ", ".join(each for each in Quota if each in self.quotas)
            raise InvalidRequest(f"{quota} is no quota of {self}: {there}")

    def __str__(self) -> str:
        named = (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
        return ", ".join(f"{kind} {shown(name)}" for kind, name in named if name is not None)


def _check_alone(user: object, client_id: object) -> None:
    """Raises InvalidRequest if an address stands beside these."""
    if user is not None or client_id is not None:
        raise InvalidRequest("an ip stands alone: a quota of it is not for a user or a client-id")


def _check_new_entity(entity: QuotaEntity) -> None:
    """Raises InvalidRequest for names that stand for something else than one user or client: a quota of such
    a name would hold for no caller."""
    user = entity.user or ""
    if DEFAULT_SHOWN in (user, entity.client_id):
        raise InvalidRequest(f"{DEFAULT_SHOWN!r} is no name: it stands for each one without a quota")
    if user == "*":
        raise InvalidRequest("no user has the name '*': the default is for each one without a quota")
    if user.startswith(f"{USER}:"):
        raise InvalidRequest(f"the user's name {user[:32]!r} begins with '{USER}:': give it without that")


def shown(name: str) -> str:
    """The name for people."""
    return DEFAULT_SHOWN if name == DEFAULT else name


def _order(entity: QuotaEntity) -> list[tuple[bool, str]]:
    """Those with a part come after those without it, and addresses last."""
    return [(name is not None, name or "") for name in (entity.ip, entity.user, entity.client_id)]


Limits = Mapping[Quota, float]
"""The limits of one entity; an entity without any has no quota."""


def parse_quota(name: str) -> Quota:
    """Raises InvalidRequest."""
    try:
        return Quota(name)
    except ValueError:
        there = ", ".join(Quota)
        raise InvalidRequest(f"{name!r} is no quota: {there}") from None


def check_limit(quota: Quota, limit: float) -> None:
    """Raises InvalidRequest."""
    least = 1 if quota in _WHOLE else RATE_MIN
    if not least <= limit <= quota.limit_max:
        raise InvalidRequest(f"{quota} = {limit:g}: give a number from {least:g} to {quota.limit_max}")
    if quota in _WHOLE and limit != int(limit):
        raise InvalidRequest(f"{quota} = {limit:g}: give a whole number of {_WHOLE[quota]} a second")


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """New limits of one entity; None removes one. The others stay. Raises InvalidRequest."""

    entity: QuotaEntity
    limits: Mapping[Quota, float | None]

    def __post_init__(self) -> None:
        for quota, limit in self.limits.items():
            if limit is not None:
                self.entity.check_has(quota)
                check_limit(quota, limit)
        if self.sets:
            _check_new_entity(self.entity)

    @property
    def sets(self) -> bool:
        """Whether it sets a limit, and does not only remove some."""
        return any(limit is not None for limit in self.limits.values())

    def after(self, limits: Limits) -> dict[Quota, float]:
        """The entity's limits after it, if they were these."""
        both = {**limits, **self.limits}
        return {quota: limit for quota, limit in both.items() if limit is not None}


@dataclass(frozen=True, slots=True)
class EntityQuotas:
    """The quotas of one entity."""

    entity: QuotaEntity
    limits: Limits


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """Chooses entities by their user and their client id, or by their address. Raises InvalidRequest.

    A part is a name, DEFAULT, ANY for each entity that has this part, or None for each entity whether it has
    it or not. `strict`: an entity must not have a part that is None here.
    """

    user: str | AnyName | None = None
    client_id: str | AnyName | None = None
    strict: bool = False
    ip: str | AnyName | None = None

    def __post_init__(self) -> None:
        if self.ip is not None:
            _check_alone(self.user, self.client_id)
        if isinstance(self.ip, str):
            object.__setattr__(self, "ip", one_spelling(self.ip) or self.ip)

    def matches(self, entity: QuotaEntity) -> bool:
        return (
            self._matches(self.user, entity.user)
            and self._matches(self.client_id, entity.client_id)
            and self._matches(self.ip, entity.ip)
        )

    def _matches(self, wanted: str | AnyName | None, name: str | None) -> bool:
        if wanted is None:
            return name is None or not self.strict
        return name is not None and (isinstance(wanted, AnyName) or name == wanted)


class AnyName(NamedTuple):
    """The kind of ANY."""


ANY: Final = AnyName()


class Held(NamedTuple):
    """The quota that holds for a caller, and the callers that share it: those of the same user if it is not
    None, and the same client id if that is not None."""

    limit: float
    user: str | None
    client_id: str | None


class HeldByAddress(NamedTuple):
    """The quota that holds for an address, and what the addresses that share it have in common."""

    limit: float
    shared_by: str


@dataclass(frozen=True, slots=True)
class Quotas:
    """All quotas of a cluster. Immutable; a change makes a new one."""

    of: Mapping[QuotaEntity, Limits]
    _limits: Mapping[Quota, Mapping[tuple[str | None, str | None], float]] = field(
        init=False, repr=False, compare=False
    )
    _of_addresses: Mapping[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        limits: dict[Quota, dict[tuple[str | None, str | None], float]] = {each: {} for each in _OF_CALLERS}
        of_addresses: dict[str, float] = {}
        for entity, given in self.of.items():
            for quota, limit in given.items():
                if entity.ip is None:
                    limits[quota][entity.user, entity.client_id] = limit
                else:
                    of_addresses[entity.ip] = limit
        object.__setattr__(self, "_limits", limits)
        object.__setattr__(self, "_of_addresses", of_addresses)

    @property
    def limits_callers(self) -> bool:
        """Whether a user or a client id has a quota."""
        return any(self._limits.values())

    @property
    def limits_connections(self) -> bool:
        """Whether an address has a quota."""
        return bool(self._of_addresses)

    def held(self, quota: Quota, user: str, client_id: str) -> Held | None:
        """The quota that holds for a caller: the most specific one, in Kafka's order. None: there is none.

        Each client of a default has the limit for itself, as in Kafka.
        """
        limits = self._limits[quota]
        if not limits:
            return None
        for asked in _most_specific_first(user, client_id):
            if (limit := limits.get(asked)) is not None:
                of_user, of_client = asked
                return Held(
                    limit, None if of_user is None else user, None if of_client is None else client_id
                )
        return None

    def held_by_address(self, address: str) -> HeldByAddress | None:
        """The limit of connections that holds for an address: its own one, or the default's. None: there is
        none.

        Under the default, each host has the limit for itself, whose addresses of IPv6 are many.
        """
        if not self._of_addresses:
            return None
        own = one_spelling(address) or address
        if (limit := self._of_addresses.get(own)) is not None:
            return HeldByAddress(limit, own)
        if (limit := self._of_addresses.get(DEFAULT)) is not None:
            return HeldByAddress(limit, one_host(own))
        return None

    def matching(self, wanted: QuotaFilter) -> list[EntityQuotas]:
        """The entities that a filter chooses, in order."""
        return [EntityQuotas(each, self.of[each]) for each in sorted(self.of) if wanted.matches(each)]


NO_QUOTAS: Final = Quotas({})


def _most_specific_first(user: str, client_id: str) -> Iterator[tuple[str | None, str | None]]:
    yield user, client_id
    yield user, DEFAULT
    yield user, None
    yield DEFAULT, client_id
    yield DEFAULT, DEFAULT
    yield DEFAULT, None
    yield None, client_id
    yield None, DEFAULT
