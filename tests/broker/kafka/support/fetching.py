"""A leader that is read from: its log ends at `END`, all of it committed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from strandline.broker.kafka.call import Call
from strandline.ids import Offset
from strandline.security.acls import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tests.broker.support.replicas import CLOCK, NAME, write
from tests.broker.support.seat import Seat, seated

EPOCH: Final = 5
END: Final = 1
LONG_MS: Final = 20_000


@asynccontextmanager
async def leading(tmp_path: Path) -> AsyncIterator[Seat]:
    async with seated(tmp_path) as seat:
        write(seat.replica, EPOCH - 1, "a")
        seat.lead(EPOCH)
        seat.commit(END)
        yield seat


def append(seat: Seat) -> None:
    """One more record, committed."""
    leadership, end = seat.replica.leadership, seat.replica.log.log_end_offset
    assert leadership is not None
    write(seat.replica, EPOCH, "b")
    leadership.core.appended(Offset(end + 1), CLOCK.monotonic())
    seat.commit(end + 1)


def may_read(call: Call) -> AclBinding:
    """The right of this caller to the topic."""
    pattern = ResourcePattern(ResourceType.TOPIC, NAME.topic, PatternType.LITERAL)
    return AclBinding(pattern, call.caller.principal, "*", Operation.READ, Permission.ALLOW)
