"""Keeps events in ZooKeeper until they are in `__state_changes`, for events that no broker records again.

A znode with them is created by the same `multi` that removes what they were made from. If this controller
ends before they are recorded, the next one finds them (CORRECTNESS Q5). An event that is recorded twice
counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.controller.term.fenced_session import FencedSession
from strandline.controller.term.recorder import RequestRecorder
from strandline.ports import Create, Delete, MultiFailed, NoNode, Operation
from strandline.vocabulary.state_changes import StateChangeEvent

logger = structlog.get_logger(__name__)

EVENTS_PER_ZNODE_MAX: Final = 200


class UnrecordedEvents:
    """All such events, during one epoch."""

    def __init__(self, session: FencedSession, recorder: RequestRecorder, new_id: Callable[[], str]) -> None:
        self._session = session
        self._recorder = recorder
        self._new_id = new_id
        self._recording: set[str] = set()
        self._recorded: set[str] = set()
        """Paths of znodes that are to be deleted."""

    def keeping(self, events: Sequence[StateChangeEvent]) -> list[Operation]:
        """The operations that keep these events; none if there are no events."""
        lots = (events[at : at + EVENTS_PER_ZNODE_MAX] for at in range(0, len(events), EVENTS_PER_ZNODE_MAX))
        return [Create(znodes.unrecorded(self._new_id()), isr_znodes.dump_unrecorded(lot)) for lot in lots]

    def written(self, operations: Iterable[Operation]) -> None:
        """Has the events recorded that these operations, which were carried out, keep."""
        for each in operations:
            if isinstance(each, Create) and each.path.startswith(f"{znodes.UNRECORDED}/"):
                self._record(each.path, each.data)

    async def look(self) -> None:
        """Takes one step for each znode: has its events recorded, or deletes it once they are."""
        for name in sorted(await self._session.children(znodes.UNRECORDED)):
            path = znodes.unrecorded(name)
            if path in self._recorded:
                await self._delete(path)
            elif path not in self._recording:
                try:
                    self._record(path, (await self._session.get(path)).data)
                except NoNode:
                    continue  # an operator has deleted it
                except ValueError as error:
                    logger.error("unreadable znode", path=path, reason=str(error))

    def _record(self, path: str, data: bytes) -> None:
        """Raises UnreadableZnode."""
        events = isr_znodes.load_unrecorded(path, data)
        self._recording.add(path)
        self._recorder.record(events, partial(self._done, path))

    def _done(self, path: str, written: bool) -> None:
        self._recording.discard(path)
        if written:
            self._recorded.add(path)

    async def _delete(self, path: str) -> None:
        try:
            await self._session.write([Delete(path)], partial(self._session.is_absent, path))
        except MultiFailed as failed:
            if not isinstance(failed.cause, NoNode):
                raise
        self._recorded.discard(path)
