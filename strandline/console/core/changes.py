"""Changes to the cluster: what one would do, in words and tables, and whether that still holds.

A change is planned from facts of the cluster, shown, and then done once. Each plan has one of these states:

    shown ─► under way ─► ended
      ▲          │
      └──────────┘  the facts have changed: what the change would do now is shown

`Plans` keeps plans and their outcomes for a while: bounded in number and age, each for the session that made
it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from typing import Final, Generic, TypeVar

from strandline.errors import InvalidRequest, Outcome, ResourceNotFound, StrandlineError
from strandline.ids import TopicId

PLANS_MAX: Final = 128
"""Plans that are kept in all; the oldest go first."""
PLANS_PER_SESSION_MAX: Final = 16
PLAN_AGE_MS_MAX: Final = 10 * 60 * 1000
"""A plan that was shown longer ago than this is not done, and an outcome is not shown again."""
ROWS_SHOWN_MAX: Final = 200
"""Rows of one table of an effect. The table says how many more there are."""

Fact = str | int | float | bool | None | Sequence["Fact"] | Mapping[str, "Fact"]
ChangeT = TypeVar("ChangeT")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text; `more` says how many further rows are not shown."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0

    @classmethod
    def of(cls, caption: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
        """The first ROWS_SHOWN_MAX of these rows, as text."""
        shown = tuple(tuple(map(str, row)) for row in islice(rows, ROWS_SHOWN_MAX))
        return cls(caption, tuple(columns), shown, len(rows) - len(shown))


@dataclass(frozen=True, slots=True)
class Place:
    """What a change is about: where its pages and its part of the timeline are."""

    topic: str = ""
    partition: int | None = None
    broker: int | None = None
    group: str = ""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change would do to the cluster as it is now.

    `title` names the change as a command: "Create topic orders". `facts` are those of the cluster from which
    the effect follows: if one of them changes, the effect has to be shown again. `typed`, if it is not empty,
    has to be typed before the change is done: for what cannot be undone.
    """

    title: str
    sentences: tuple[str, ...]
    facts: Mapping[str, Fact]
    tables: tuple[Table, ...] = ()
    warnings: tuple[str, ...] = ()
    typed: str = ""

    @property
    def topic_id(self) -> TopicId:
        """Of the one topic that it is about, to which alone it is done. Raises KeyError."""
        return TopicId(str(self.facts["topic_id"]))

    @property
    def fingerprint(self) -> str:
        """Differs between two effects that follow from different facts."""
        written = json.dumps(self.facts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(written.encode()).hexdigest()


class End(Enum):
    """How a change ended."""

    DONE = "done"
    REFUSED = "refused"
    """The cluster did not do it; for a change of many things: not all of it."""
    FAILED_FOR_NOW = "failed for now"
    """As refused, but it may succeed if it is tried again."""
    UNKNOWN = "unknown"
    """It may or may not have been done."""


_ENDS: Final = {
    Outcome.FATAL: End.REFUSED,
    Outcome.RETRIABLE: End.FAILED_FOR_NOW,
    Outcome.UNKNOWN: End.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of a change, in sentences: those of the change, or those of the cluster."""

    end: End
    sentences: tuple[str, ...]
    error: str = ""
    """The type of the cluster's error, such as TopicAuthorizationFailed."""

    see: str = ""
    """The page that has what came of it, if there is one."""

    @classmethod
    def done(cls, *sentences: str, see: str = "") -> Ended:
        return cls(End.DONE, sentences, see=see)

    @classmethod
    def by(cls, error: StrandlineError) -> Ended:
        """The outcome of a change that raised this error: in its own words, with its notes."""
        notes = tuple(getattr(error, "__notes__", ()))
        return cls(_ENDS[error.outcome], (error.message, *notes), type(error).__name__)


class State(Enum):
    SHOWN = "shown"
    UNDER_WAY = "under way"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Plan(Generic[ChangeT]):
    """A change that was shown to one session. `began_ms` and `ended` belong to the later states."""

    id: str
    session: str
    change: ChangeT
    effect: Effect
    shown_ms: int
    state: State = State.SHOWN
    shown_anew: bool = False
    """The facts had changed when it was to be done; this effect is the one of the new facts."""
    began_ms: int = 0
    ended: Ended | None = None


@dataclass(slots=True)
class Plans(Generic[ChangeT]):
    """The plans of all sessions. Ids are given by the caller, and cannot be guessed."""

    _plans: dict[str, Plan[ChangeT]] = field(default_factory=dict)
    """By id, the oldest first."""

    def add(self, plan_id: str, session: str, change: ChangeT, effect: Effect, now_ms: int) -> Plan[ChangeT]:
        """Keep a plan that is about to be shown. Forgets the oldest ones beyond the bounds."""
        self._expire(now_ms)
        plan = Plan(plan_id, session, change, effect, now_ms)
        self._plans[plan_id] = plan
        own = [each for each in self._plans.values() if each.session == session]
        self._forget(own, PLANS_PER_SESSION_MAX)
        self._forget(list(self._plans.values()), PLANS_MAX)
        return plan

    def get(self, plan_id: str, session: str, now_ms: int) -> Plan[ChangeT]:
        """Raises ResourceNotFound for a plan of another session, too old, or unknown."""
        self._expire(now_ms)
        plan = self._plans.get(plan_id)
        if plan is None or plan.session != session:
            minutes = PLAN_AGE_MS_MAX // 60_000
            raise ResourceNotFound(
                f"this change is not known: it was shown to another session, or more than {minutes} minutes "
                "ago, or before the console was started again; ask for it again"
            )
        return plan

    def begin(
        self, plan_id: str, session: str, *, seen: str, typed: str, now_ms: int
    ) -> Plan[ChangeT] | None:
        """Take the plan to do it. None if that has begun before, since a change is done once, or if another
        effect of it than the one with the fingerprint `seen` is shown by now.

        Raises ResourceNotFound, and InvalidRequest if what was typed is not what the effect asks for.
        """
        plan = self.get(plan_id, session, now_ms)
        if plan.state is not State.SHOWN or plan.effect.fingerprint != seen:
            return None
        if typed.strip() != plan.effect.typed:
            raise InvalidRequest(f"{typed!r} was typed; type {plan.effect.typed!r} to confirm this change")
        return self._put(replace(plan, state=State.UNDER_WAY, began_ms=now_ms))

    def show_anew(self, plan: Plan[ChangeT], effect: Effect, now_ms: int) -> None:
        """The facts of a plan under way have changed, and it was not done: show this effect of it."""
        self._put(
            replace(plan, effect=effect, state=State.SHOWN, shown_anew=True, shown_ms=now_ms, began_ms=0)
        )

    def end(self, plan: Plan[ChangeT], ended: Ended) -> None:
        """Keep the outcome of a plan under way."""
        self._put(replace(plan, state=State.ENDED, ended=ended))

    def _put(self, plan: Plan[ChangeT]) -> Plan[ChangeT]:
        if plan.id in self._plans:  # it may be forgotten while it is under way
            self._plans[plan.id] = plan
        return plan

    def _expire(self, now_ms: int) -> None:
        old = [each for each in self._plans.values() if now_ms - each.shown_ms > PLAN_AGE_MS_MAX]
        self._forget(old, 0)

    def _forget(self, plans: Sequence[Plan[ChangeT]], kept: int) -> None:
        """Forgets the first ones of `plans`, up to `kept`; never one that is under way."""
        spare = [each for each in plans if each.state is not State.UNDER_WAY]
        for plan in spare[: max(0, len(plans) - kept)]:
            del self._plans[plan.id]
