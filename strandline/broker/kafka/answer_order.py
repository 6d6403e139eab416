"""The order of one connection's requests, and of their answers.

A request begins when all before it are answered. Requests of an API that allows it (Produce) also begin while
all unanswered ones before them are of that kind: so a producer has several requests in flight, and no other
request overtakes one, or is overtaken. Answers leave in the order of the requests. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from strandline.broker.kafka.wire.fields import Part


class Slot:
    """The place of one request in the order. `parts` is its answer, once it is there; empty: it gets none."""

    __slots__ = ("parallel", "parts")

    def __init__(self, *, parallel: bool) -> None:
        self.parallel = parallel
        self.parts: Sequence[Part] | None = None


class AnswerOrder:
    """The begun requests of one connection whose answers have not left."""

    def __init__(self) -> None:
        self._slots: deque[Slot] = deque()

    def __len__(self) -> int:
        return len(self._slots)

    def may_begin(self, *, parallel: bool) -> bool:
        """True if the next request may begin now; `parallel` as of its API."""
        # Only parallel requests share the order, so the last one stands for all.
        return not self._slots or (parallel and self._slots[-1].parallel)

    def begin(self, *, parallel: bool) -> Slot:
        slot = Slot(parallel=parallel)
        self._slots.append(slot)
        return slot

    def take(self) -> list[Part]:
        """Removes the answers that may leave now, and returns their parts in order."""
        leaving: list[Part] = []
        while self._slots and (parts := self._slots[0].parts) is not None:
            self._slots.popleft()
            leaving += parts
        return leaving
