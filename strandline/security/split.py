"""The entries of a request, by whether its caller may use what they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from strandline.errors import StrandlineError

Entry = TypeVar("Entry")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Split(Generic[Entry]):
    """A handler answers what is allowed, and each refusal stands in its place in the whole answer."""

    entries: Sequence[Entry]
    name: Callable[[Entry], str]
    """The topic that an entry needs a right to."""
    refused: Mapping[str, StrandlineError]
    """By name."""

    @property
    def allowed(self) -> Sequence[Entry]:
        if not self.refused:
            return self.entries
        return [entry for entry in self.entries if self.name(entry) not in self.refused]

    @property
    def refusals(self) -> dict[Entry, StrandlineError]:
        """By entry."""
        if not self.refused:
            return {}
        return {
            entry: self.refused[name] for entry in self.entries if (name := self.name(entry)) in self.refused
        }

    def whole(
        self, answers: list[Answer], refuse: Callable[[Entry, StrandlineError], Answer]
    ) -> list[Answer]:
        """The answers to what is allowed, and the refusals of the rest, in the order of the entries."""
        if not self.refused:
            return answers
        found = iter(answers)
        return [
            refuse(entry, self.refused[name]) if (name := self.name(entry)) in self.refused else next(found)
            for entry in self.entries
        ]
