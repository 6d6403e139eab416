"""The last rebalances of a group, from its events: why each began, who came and went, who got and lost what.
Pure.

A rebalance begins with `rebalance_started`, has the generation that follows, and ends when the assignment of
that generation is there, when another rebalance interrupts it, or when no member is left. In a group whose
coordinator assigns, it ends when each member has reached its epoch. What members report afterwards
(`assigned`) belongs to it by its generation. Members come and go, and partitions are given up, before
`rebalance_started` says so: those belong to the rebalance that follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from strandline.console.core.timeline.facts.group_events import partitions_of, text_of
from strandline.ids import TopicPartition

REBALANCES_MAX: Final = 50
"""The most rebalances that are kept; the oldest go first."""
NAMES_MAX: Final = 200
"""The most members, and the most partitions of one member, that one rebalance names."""


class End(Enum):
    """How far a rebalance is."""

    UNDER_WAY = "under way"
    STABLE = "stable"
    INTERRUPTED = "interrupted"
    """Another one began before it had ended."""
    EMPTY = "no members left"


class Departure(Enum):
    """Why a member is no longer one, as far as the reason says."""

    LEFT = "left"
    TIMED_OUT = "timed out"
    TOO_SLOW = "too slow"
    """It did not join or sync in time."""
    REPLACED = "replaced"
    """Another process took the place of its instance."""
    REMOVED = "removed"


_DEPARTURES: Final = (
    ("left", Departure.LEFT),
    ("not heard of", Departure.TIMED_OUT),
    ("was silent", Departure.TIMED_OUT),
    ("did not ", Departure.TOO_SLOW),
    ("member ", Departure.REPLACED),
)


@dataclass(frozen=True, slots=True)
class Departed:
    """A member that went, and the reason that the coordinator or the member gave."""

    member: str
    how: Departure
    reason: str


@dataclass(slots=True)
class Moves:
    """The partitions that one member got, gave up in order, and lost."""

    got: set[TopicPartition] = field(default_factory=set)
    gave_up: set[TopicPartition] = field(default_factory=set)
    lost: set[TopicPartition] = field(default_factory=set)


@dataclass(slots=True)
class Changes:
    """What happened to members and partitions."""

    joined: dict[str, str] = field(default_factory=dict)
    """The reason of each member that joined, empty if it gave none."""
    left: dict[str, Departed] = field(default_factory=dict)
    moves: dict[str, Moves] = field(default_factory=dict)
    cut: bool = False
    """There was more than NAMES_MAX of something."""

    def __bool__(self) -> bool:
        return bool(self.joined or self.left or self.moves)

    def note(self, event: Mapping[str, Any]) -> None:
        """Count an event of a member in."""
        member, reason = text_of(event, "member"), text_of(event, "reason")
        match event["event"]:
            case "member_joined" if self._room(self.joined, member):
                self.joined[member] = reason
            case "member_left" if self._room(self.left, member):
                how = next((how for start, how in _DEPARTURES if reason.startswith(start)), Departure.REMOVED)
                self.left[member] = Departed(member, how, reason)
            case "assigned" | "revoked" | "lost" as kind if self._room(self.moves, member):
                moves = self.moves.setdefault(member, Moves())
                of_kind = {"assigned": moves.got, "revoked": moves.gave_up, "lost": moves.lost}[kind]
                for name in partitions_of(event):
                    if len(of_kind) >= NAMES_MAX:
                        self.cut = True
                        break
                    of_kind.add(name)

    def _room(self, found: Mapping[str, object], member: str) -> bool:
        if member in found or len(found) < NAMES_MAX:
            return True
        self.cut = True
        return False


@dataclass(slots=True)
class Rebalance:
    """One rebalance. `generation` is the one that it led to, None if none began yet. `began_ms` is None if
    its beginning is older than the known events."""

    began_ms: int | None
    reason: str
    caused_by: str
    generation: int | None = None
    ended_ms: int | None = None
    end: End = End.UNDER_WAY
    waited_for: str = ""
    """The member that gave partitions up last, of a group whose coordinator assigns."""
    changes: Changes = field(default_factory=Changes)
    event: str | None = None
    """The id of the event that says so."""

    @property
    def took_ms(self) -> int | None:
        """From its beginning until the members could read on."""
        if self.began_ms is None or self.ended_ms is None:
            return None
        return max(0, self.ended_ms - self.began_ms)

    @property
    def at_ms(self) -> int | None:
        """When it was, as near as it is known."""
        return self.began_ms if self.began_ms is not None else self.ended_ms


@dataclass(frozen=True, slots=True)
class History:
    """The last rebalances, the newest first; and what happened since without one."""

    rebalances: tuple[Rebalance, ...]
    since: Changes


@dataclass(slots=True)
class _Fold:
    kept: list[Rebalance] = field(default_factory=list)
    pending: Changes = field(default_factory=Changes)

    @property
    def last(self) -> Rebalance | None:
        return self.kept[-1] if self.kept else None

    def under_way(self) -> Rebalance | None:
        return self.last if self.last is not None and self.last.end is End.UNDER_WAY else None

    def begin(self, event: Mapping[str, Any], began_ms: int | None, event_id: str | None) -> Rebalance:
        if (before := self.under_way()) is not None:
            before.end = End.INTERRUPTED
        new = Rebalance(began_ms, text_of(event, "reason"), text_of(event, "caused_by"), event=event_id)
        new.changes, self.pending = self.pending, Changes()
        self.kept.append(new)
        del self.kept[:-REBALANCES_MAX]
        return new

    def note(self, event: Mapping[str, Any], event_id: str | None) -> None:
        match event["event"]:
            case "rebalance_started":
                self.begin(event, event["at_ms"], event_id)
            case "generation_ended" if (current := self.under_way()) is not None:
                # If it is not followed by `generation_started`, no member was left.
                current.end, current.ended_ms = End.EMPTY, event["at_ms"]
            case "generation_started":
                current = self.last if self.last is not None and self.last.generation is None else None
                current = current or self.begin(event, None, event_id)
                current.generation, current.end, current.ended_ms = event["generation"], End.UNDER_WAY, None
            case "generation_stable":
                current = self.under_way() or self.begin(event, None, event_id)
                current.generation, current.end = event["generation"], End.STABLE
                current.ended_ms = event["at_ms"]
                current.waited_for = text_of(event, "caused_by")
            case "assigned":
                self._of_generation(event["generation"]).note(event)
            case "member_joined" | "member_left" | "revoked" | "lost":
                current = self.under_way()
                (self.pending if current is None else current.changes).note(event)

    def _of_generation(self, generation: int) -> Changes:
        for rebalance in reversed(self.kept):
            if rebalance.generation == generation:
                return rebalance.changes
        return self.pending


def rebalances(events: Iterable[tuple[str | None, Mapping[str, Any]]]) -> History:
    """The rebalances that these events of one group tell of: (the event's id, its fields), the oldest first.

    Events that other versions may add are passed over.
    """
    fold = _Fold()
    for event_id, event in events:
        fold.note(event, event_id)
    return History(tuple(reversed(fold.kept)), fold.pending)
