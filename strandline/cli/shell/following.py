"""Follows what the cluster does in the background, until it has ended or does not get on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from strandline.cli.shell.waits import Waits

if TYPE_CHECKING:
    from strandline.ports import Clock

STUCK_S: Final = 30.0
"""Time without progress after which what reports problems is not waited for."""


class Progress(Protocol):
    """How far it is, as an answer says."""

    @property
    def problems(self) -> Sequence[str]:
        """Why it does not get on now."""


P = TypeVar("P", bound=Progress)


async def followed(
    look: Callable[[], Awaitable[P]],
    what: str,
    *,
    is_over: Callable[[P], bool],
    line: Callable[[P], str],
    note: Callable[[str], None],
    look_again_s: float,
    clock: Clock | None = None,
) -> P:
    """The last answer: the first one that is over, or that has had problems without progress for STUCK_S.

    `note` gets each new line, and what is waited for. `clock` None: the machine's. Raises what `look` raises,
    unless a later look may succeed.
    """
    from strandline.adapters.system.clock import SystemClock
    from strandline.errors import StrandlineError

    clock = SystemClock() if clock is None else clock
    shown = ""
    moved_at = clock.monotonic()
    waits = Waits(note, clock)
    while True:
        try:
            found = await look()
        except StrandlineError as error:
            if not error.retriable or clock.monotonic() - moved_at >= STUCK_S:
                raise
            waits.show(f"not known how far {what} is: {error.message}")
        else:
            if is_over(found):
                return found
            if (now := line(found)) != shown:
                shown, moved_at = now, clock.monotonic()
                note(now)
            if found.problems:
                waits.show(f"waiting: {first_of(found.problems)}")
                if clock.monotonic() - moved_at >= STUCK_S:
                    return found
        await clock.sleep(look_again_s)


def first_of(problems: Sequence[str]) -> str:
    """The first one, and how many more there are."""
    return problems[0] if len(problems) == 1 else f"{problems[0]}, and {len(problems) - 1} more"
