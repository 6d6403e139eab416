"""A kind of change, and the machinery that plans and does changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from strandline.console.clients import Clients
from strandline.console.core.changes import Effect, End, Ended, Place, Plan, Plans
from strandline.console.core.forms import Form
from strandline.errors import StrandlineError
from strandline.host import Host

log = structlog.get_logger()


class Change(Protocol):
    """One change that a caller asks for, as a value."""

    @property
    def place(self) -> Place:
        """What it is about."""
        ...

    async def plan(self, clients: Clients) -> Effect:
        """What it would do now; changes nothing. Raises the cluster's refusal."""
        ...

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Do it, as its effect was shown. Raises the cluster's refusal."""
        ...


Kind = Callable[[Form], Change]
"""Reads a change of one kind from a form. Raises InvalidRequest."""


class Changes:
    """Plans changes, and does each plan at most once."""

    def __init__(self, kinds: Mapping[str, Kind], host: Host) -> None:
        self.kinds = kinds
        self._host = host
        self._plans = Plans[Change]()

    async def plan(self, session: str, change: Change, clients: Clients) -> Plan[Change]:
        """What a change would do, with an id by which `do` does it. Raises the cluster's refusal."""
        effect = await change.plan(clients)
        return self._plans.add(self._host.new_id(), session, change, effect, self._host.clock.wall_ms())

    def get(self, plan_id: str, session: str) -> Plan[Change]:
        """A plan of this session as it is now. Raises ResourceNotFound."""
        return self._plans.get(plan_id, session, self._host.clock.wall_ms())

    async def do(self, plan_id: str, session: str, *, seen: str, typed: str, clients: Clients) -> None:
        """Do a plan whose effect was seen, the one with the fingerprint `seen`. `get` has the outcome.

        Does nothing if the plan was begun before, or if its effect is another one by now: then that one is to
        be shown. Raises ResourceNotFound, and InvalidRequest if `typed` does not confirm the effect.
        """
        now_ms = self._host.clock.wall_ms()
        plan = self._plans.begin(plan_id, session, seen=seen, typed=typed, now_ms=now_ms)
        if plan is None:
            return
        ended: Ended | None = Ended(End.UNKNOWN, ("The console was interrupted while it made this change.",))
        try:
            effect = await plan.change.plan(clients)
            if effect.fingerprint == plan.effect.fingerprint:
                ended = await plan.change.do(clients, effect)
            else:
                ended = None
                self._plans.show_anew(plan, effect, self._host.clock.wall_ms())
        except StrandlineError as error:
            ended = Ended.by(error)
        finally:
            if ended is not None:
                self._plans.end(plan, ended)
                log.info("change ended", change=plan.effect.title, end=ended.end.value, error=ended.error)
