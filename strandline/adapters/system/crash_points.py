"""Named points at which a process kills itself, so that tests can crash it between any two steps,
or breaks an invariant, so that tests can check that it fails fast.

They are off unless the constant `crash_points` names one: `election.claimed` kills at the first
pass, `election.claimed:3` at the third. An unarmed point costs one lookup of a context variable.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, NoReturn

from strandline.errors import SettingsError


class _Armed:
    """The armed points of one process."""

    def __init__(self, counts: dict[str, int], die: Callable[[], NoReturn]) -> None:
        self._counts = counts
        self.die = die

    def reached(self, name: str) -> bool:
        if name not in self._counts:
            return False
        self._counts[name] -= 1
        return self._counts[name] <= 0


_armed: Final[ContextVar[_Armed | None]] = ContextVar("armed_crash_points", default=None)
"""Those of the process in which the current task runs: several may share one event loop."""


def arm(spec: str, die: Callable[[], NoReturn]) -> None:
    """Arm the points in `spec`, a comma-separated list, for this task and all that it starts. `die` ends the
    process at one. Raises SettingsError for an invalid count."""
    counts: dict[str, int] = {}
    for part in filter(None, (item.strip() for item in spec.split(","))):
        name, _, nth = part.partition(":")
        if nth and not nth.isdigit():
            raise SettingsError(
                f"setting crash_points = {spec!r}: {nth!r} is not a count (set STRANDLINE_TEST_CRASH_POINTS)"
            )
        counts[name] = int(nth or 1)
    _armed.set(_Armed(counts, die) if counts else None)


def crash_point(name: str) -> None:
    """Die here, as if by kill -9, if this point is armed and its count is reached."""
    if (armed := _armed.get()) is not None and armed.reached(name):
        armed.die()


def defect_point(name: str) -> None:
    """Raise AssertionError here, as a defect would, if this point is armed and its count is reached."""
    if (armed := _armed.get()) is not None and armed.reached(name):
        raise AssertionError(f"defect point {name} is armed")
