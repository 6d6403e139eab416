"""What a command waits for, said while it waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strandline.ports import Clock

TELL_AGAIN_S: Final = 3.0
"""A wait is told no more often, and not at all if it is over before."""
REPEAT_S: Final = 30.0
"""The same as before is told again only after this."""


class Waits:
    """Of one command. `note` says a line."""

    def __init__(self, note: Callable[[str], None], clock: Clock) -> None:
        self._note = note
        self._clock = clock
        self._told = ""
        self._told_at = clock.monotonic()

    @property
    def due(self) -> bool:
        """Whether a line would be said now, unless it is the same as before."""
        return self._clock.monotonic() - self._told_at >= TELL_AGAIN_S

    def tell(self, what: str) -> None:
        waited_s = self._clock.monotonic() - self._told_at
        if waited_s >= (REPEAT_S if what == self._told else TELL_AGAIN_S):
            self._told, self._told_at = what, self._clock.monotonic()
            self._note(what)
