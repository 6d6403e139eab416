"""Shows what a command waits for, while it waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strandline.ports import Clock

SHOW_AGAIN_S: Final = 3.0
"""Time between two lines. A shorter wait shows no line."""
REPEAT_S: Final = 30.0
"""Time after which the same line is shown again."""


class Waits:
    """The waits of one command. `note` writes a line."""

    def __init__(self, note: Callable[[str], None], clock: Clock) -> None:
        self._note = note
        self._clock = clock
        self._shown = ""
        self._shown_at = clock.monotonic()

    @property
    def due(self) -> bool:
        """True if a new line would be shown now."""
        return self._clock.monotonic() - self._shown_at >= SHOW_AGAIN_S

    def show(self, what: str) -> None:
        waited_s = self._clock.monotonic() - self._shown_at
        if waited_s >= (REPEAT_S if what == self._shown else SHOW_AGAIN_S):
            self._shown, self._shown_at = what, self._clock.monotonic()
            self._note(what)
