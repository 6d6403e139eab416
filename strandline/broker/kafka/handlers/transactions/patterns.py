"""Patterns of transactional ids (KIP-1152), matched in time that is linear in the id.

Kafka's brokers take RE2's expressions. Python's own engine tries alternatives one after the other, for
minutes with some patterns, and a broker has one thread. So this reads what people write for names:
characters, `.` and classes, each with `*`, `+` or `?`; alternatives with `|`; `^` in front, `$` at the end.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_OPTIONAL: Final = ("*", "?")
_REPEATED: Final = ("*", "+")
PATTERN_CHARS_MAX: Final = 256
_ATOM: Final = re.compile(r"(\\[^\w\s]|\\[dwsDWS]|\[\^?\]?[^\]]*\]|[^\\\[\](){}*+?|^$])([*+?]?)", re.DOTALL)


class UnreadablePattern(Exception):
    """It is no expression, or has parts that are not read here."""


class _Atom(NamedTuple):
    """One character that matches, or several."""

    matches: re.Pattern[str]
    optional: bool
    repeated: bool


class Pattern:
    """Raises UnreadablePattern."""

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_CHARS_MAX:
            raise UnreadablePattern
        self._alternatives = [_atoms(_bare(part)) for part in text.split("|")]

    def matches(self, text: str) -> bool:
        """Whether it matches the whole text."""
        return any(_matches(atoms, text) for atoms in self._alternatives)


def _bare(text: str) -> str:
    """Without anchors: the whole text has to match in any case."""
    text = text.removeprefix("^")
    return text if text.endswith("\\$") else text.removesuffix("$")


def _atoms(text: str) -> list[_Atom]:
    found, at = list[_Atom](), 0
    while at < len(text):
        match = _ATOM.match(text, at)
        if match is None:
            raise UnreadablePattern
        atom, many = match.groups()
        try:
            found.append(_Atom(re.compile(atom, re.DOTALL), many in _OPTIONAL, many in _REPEATED))
        except re.error as error:
            raise UnreadablePattern from error
        at = match.end()
    return found


def _matches(atoms: list[_Atom], text: str) -> bool:
    """Follows all positions in the pattern at the same time."""
    at = _reached(atoms, {0})
    for character in text:
        after = set[int]()
        for position in at:
            if position < len(atoms) and atoms[position].matches.fullmatch(character):
                after.add(position + 1)
                if atoms[position].repeated:
                    after.add(position)
        at = _reached(atoms, after)
        if not at:
            return False
    return len(atoms) in at


def _reached(atoms: list[_Atom], positions: set[int]) -> set[int]:
    """With those behind optional atoms."""
    found = set(positions)
    for position in sorted(positions):
        while position < len(atoms) and atoms[position].optional:
            position += 1
            found.add(position)
    return found
