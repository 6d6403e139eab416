"""Has the audit log know of changes whose end is not seen."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from strandline.errors import OutcomeUnknown, StrandlineError
from strandline.ports import Caller
from strandline.security.access import Access
from strandline.security.audit.entry import may_have_changed
from strandline.security.rights import Right


@contextmanager
def unfinished_noted(
    access: Access, caller: Caller, right: Right, name: str, **arguments: Any
) -> Iterator[None]:
    """For the work of a change. If it is cut off, or ends with an unknown outcome, it may have changed
    something, and that is noted. Its success is for `Access.changed`."""
    try:
        yield
    except asyncio.CancelledError:
        access.changed(caller, right, name, OutcomeUnknown("the caller left"), **arguments)
        raise
    except StrandlineError as error:
        if may_have_changed(error):
            access.changed(caller, right, name, error, **arguments)
        raise
