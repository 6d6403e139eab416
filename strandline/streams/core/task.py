"""The identifier of a task."""

from __future__ import annotations

from typing import NamedTuple


class TaskId(NamedTuple):
    """One partition of a subtopology. Ordered by subtopology, then by partition."""

    subtopology: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}-{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """The task with this `str()`. Raises ValueError if there is none."""
        subtopology, _, number = text.rpartition("-")
        if not (subtopology and number.isascii() and number.isdigit()):
            raise ValueError(f"{text!r} names no task: a subtopology, a hyphen and a partition do")
        task = cls(subtopology, int(number))
        if str(task) != text:
            raise ValueError(f"{text!r} names no task: {task} is how that one is written")
        return task
