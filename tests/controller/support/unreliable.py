"""A session that loses answers where a test says so."""

from __future__ import annotations

from collections.abc import Sequence

from strandline.ports import ConnectionLost, Coordination, Operation, Znode


class Unreliable:
    """A session whose first multis lose their answer, before or after they were carried out."""

    def __init__(self, session: Coordination, lost: Sequence[str], *, reads_lost: int = 1) -> None:
        self._session = session
        self._lost = list(lost)
        self.reads_lost = reads_lost

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        when = self._lost.pop(0) if self._lost else "never"
        if when == "before":
            raise ConnectionLost("before")
        answer = await self._session.multi(operations)
        if when == "after":
            raise ConnectionLost("after")
        return answer

    async def exists(self, path: str) -> Znode | None:
        if self.reads_lost:
            self.reads_lost -= 1
            raise ConnectionLost("a read")
        return await self._session.exists(path)
