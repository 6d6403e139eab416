"""Measures how much of the event loop's time a coroutine takes: its own turns, and not what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Turns:
    """The time that some coroutines have taken. `now`: monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._taken_s = 0.0
        self._began: float | None = None
        """When the present turn began; None between turns."""

    def taken_s(self) -> float:
        """The seconds since this was last asked, with those of the present turn."""
        now = self._now()
        taken_s, self._taken_s = self._taken_s, 0.0
        if self._began is not None:
            taken_s, self._began = taken_s + now - self._began, now
        return taken_s

    @coroutine
    def of(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Await this to run the work, and have its turns measured."""
        step: Callable[[Any], Any] = work.send
        given: Any = None
        while True:
            self._began = self._now()
            try:
                awaited = step(given)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self._taken_s += self._now() - self._began
                self._began = None
            try:
                step, given = work.send, (yield awaited)
            except BaseException as error:
                step, given = work.throw, error
