"""Finds what differs between two answers, and holds it against the table of differences that are known."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strandline_lab.conformance.case import VERSION_MAX
from strandline_lab.conformance.normal import identity

ABSENT: Final = "absent"
PRESENT: Final = "present"
ERROR: Final = "ErrorCode"
NAMED: Final = "Configs"
"""An array whose elements are named in paths, since each is a fact of its own."""
WHOLE: Final = "."
"""The path of an answer as a whole."""
TEXT_CHARS_MAX: Final = 80
ANY_API: Final = "*"
_CELLS: Final = 5


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One field that is not alike. `field` is a path of names; elements of arrays have none but configs."""

    api: str
    version: int
    case: str
    field: str
    ours: str
    kafkas: str

    @property
    def kind(self) -> tuple[str, str, str, str]:
        """What differences of several cases and versions have in common."""
        return self.api, self.field, self.ours, self.kafkas


# --- two answers ------------------------------------------------------------------------------


def differences(ours: Any, kafkas: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Field, our value, Kafka's value, for each field that differs in two answers in normal form."""
    if isinstance(ours, dict) and isinstance(kafkas, dict):
        if ours.get(ERROR) != kafkas.get(ERROR):
            # The fields beside an error follow from it.
            ours, kafkas = ({ERROR: each.get(ERROR)} for each in (ours, kafkas))
        for name in ours | kafkas:
            at = f"{path}.{name}" if path else name
            if name not in ours or name not in kafkas:
                yield at, _presence(name in ours), _presence(name in kafkas)
            else:
                yield from differences(ours[name], kafkas[name], at)
    elif _has_elements(ours, kafkas):
        yield from _elements(ours, kafkas, path)
    elif ours != kafkas:
        yield path or WHOLE, shown(ours), shown(kafkas)


def _has_elements(ours: Any, kafkas: Any) -> bool:
    """Whether both are arrays, and at least one of them has structures."""
    arrays = isinstance(ours, list) and isinstance(kafkas, list)
    return arrays and any(isinstance(each, dict) for each in (*ours, *kafkas))


def _elements(ours: Sequence[Any], kafkas: Sequence[Any], path: str) -> Iterator[tuple[str, str, str]]:
    left, right = _numbered(ours), _numbered(kafkas)
    alone = [name for name in left | right if name not in left or name not in right]
    if len(alone) == 2 and len(left) == len(right):
        # One element each, under different names: the names are what differs.
        one, other = (next(side[name] for name in alone if name in side) for side in (left, right))
        yield from differences(one, other, path)
        alone = []
    for name in alone:
        label = "/".join(each for each in name[0] if each) or "element"
        yield f"{path}[{label}]", _presence(name in left), _presence(name in right)
    for name in left:
        if name in right:
            at = f"{path}[{name[0][0]}]" if path.endswith(NAMED) else path
            yield from differences(left[name], right[name], at)


def _numbered(elements: Iterable[Any]) -> dict[tuple[tuple[str, ...], int], Any]:
    """Elements by their identity, and a number for those that have the same one."""
    seen: Counter[tuple[str, ...]] = Counter()
    found = {}
    for each in elements:
        name = identity(each)
        found[name, seen[name]] = each
        seen[name] += 1
    return found


def _presence(there: bool) -> str:
    return PRESENT if there else ABSENT


def shown(value: Any) -> str:
    """A value as one short word of text."""
    if isinstance(value, dict):
        return "{…}"
    text = "null" if value is None else '""' if value == "" else str(value)
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[: TEXT_CHARS_MAX - 1]}…"


# --- the table --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """Differences that stay, for a reason. `*` in a text stands for anything."""

    api: str
    first: int
    last: int
    case: str
    field: str
    ours: str
    kafkas: str
    reason: str

    def explains(self, found: Difference) -> bool:
        return (
            fits(self.api, found.api)
            and self.first <= found.version <= self.last
            and fits(self.case, found.case)
            and fits(self.field, found.field)
            and fits(self.ours, found.ours)
            and fits(self.kafkas, found.kafkas)
        )

    def __str__(self) -> str:
        versions = f"{self.first}+" if self.last == VERSION_MAX else f"{self.first}-{self.last}"
        return f"{self.api} {versions} | {self.case} | {self.field} | {self.ours} | {self.kafkas}"


def fits(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), text) is not None


def row(text: str, reason: str) -> Row:
    """Reads `API versions | case | field | ours | Kafka's`. Raises ValueError."""
    cells = [cell.strip() for cell in text.split("|")]
    if len(cells) != _CELLS:
        raise ValueError(f"{text!r} has {len(cells)} cells, not {_CELLS}")
    api, _, versions = cells[0].partition(" ")
    first, dash, last = versions.removesuffix("+").partition("-")
    end = VERSION_MAX if versions.endswith("+") else int(last if dash else first)
    return Row(api, int(first), end, cells[1], cells[2], cells[3], cells[4], reason)


def read_table(folder: Path) -> list[Row]:
    """The rows of all files of the table. Raises ValueError."""
    return [
        row(text, group["reason"])
        for file in sorted(folder.glob("*.toml"))
        for group in tomllib.loads(file.read_text())["group"]
        for text in group["rows"]
    ]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Differences that no row explains, rows that explain nothing, and how many differences a reason has."""

    new: Sequence[Difference]
    stale: Sequence[Row]
    known: Mapping[str, int]


def judged(found: Sequence[Difference], table: Sequence[Row], apis: Iterable[str]) -> Judgement:
    """Holds differences against the table. Rows of APIs that were not compared are left out."""
    compared = {*apis, ANY_API}
    new: list[Difference] = []
    known: Counter[str] = Counter()
    used: set[Row] = set()
    for each in found:
        rows = [candidate for candidate in table if candidate.explains(each)]
        used.update(rows)
        if rows:
            known[rows[0].reason] += 1
        else:
            new.append(each)
    stale = [each for each in table if each.api in compared and each not in used]
    return Judgement(new, stale, known)
