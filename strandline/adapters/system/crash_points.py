"""Named points at which a process kills itself, so that tests can crash it between any two steps,
or breaks an invariant, so that tests can check that it fails fast.

They are off unless the setting `crash_points` names one: `election.claimed` kills at the first
pass, `election.claimed:3` at the third. An unarmed point costs one lookup in an empty dict.
"""

from __future__ import annotations

import os
import signal

from strandline.errors import SettingsError

_armed: dict[str, int] = {}


def arm(spec: str) -> None:
    """Arm the points in `spec`, a comma-separated list. Raises SettingsError for an invalid count."""
    for part in filter(None, (item.strip() for item in spec.split(","))):
        name, _, nth = part.partition(":")
        if nth and not nth.isdigit():
            raise SettingsError(
                f"setting crash_points = {spec!r}: {nth!r} is not a count (set STRANDLINE_CRASH_POINTS)"
            )
        _armed[name] = int(nth or 1)


def crash_point(name: str) -> None:
    """Die here, as if by kill -9, if this point is armed and its count is reached."""
    if _armed and _reached(name):
        os.kill(os.getpid(), signal.SIGKILL)


def defect_point(name: str) -> None:
    """Raise AssertionError here, as a defect would, if this point is armed and its count is reached."""
    if _armed and _reached(name):
        raise AssertionError(f"defect point {name} is armed")


def _reached(name: str) -> bool:
    if name not in _armed:
        return False
    _armed[name] -= 1
    return _armed[name] <= 0
