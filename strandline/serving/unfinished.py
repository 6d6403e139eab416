"""Has the audit log know of changes whose end is not seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from strandline.errors import OutcomeUnknown, StrandlineError
from strandline.security.audit.entry import may_have_changed


@contextmanager
def unfinished_noted(note: Callable[[StrandlineError], None]) -> Iterator[None]:
    """For the work of a change. If it is cut off, or ends with an unknown outcome, it may have changed
    something, and `note` gets the error. Its success is for the caller."""
    try:
        yield
    except asyncio.CancelledError:
        note(OutcomeUnknown("the change was cut off"))
        raise
    except StrandlineError as error:
        if may_have_changed(error):
            note(error)
        raise
