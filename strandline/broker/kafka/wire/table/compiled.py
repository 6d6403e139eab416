"""Makes functions that read and write messages from their declarations: straight-line code, once a version.

The source of a function has nothing but names that are counted here, methods of Reader and Writer, and
literals of the declaration. Nothing of a message gets into it.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from strandline.broker.kafka.wire.fields import ELEMENTS_PER_STEP, Reader, Steps, Writer
from strandline.broker.kafka.wire.table.rows import (
    Array,
    Inline,
    Kind,
    Number,
    One,
    Primitive,
    Row,
    Struct,
    bytes_min,
)

_LITERALS: Final = (type(None), bool, int, str, bytes)


@cache
def reading(kind: Kind, version: int, flexible: bool) -> Callable[[Reader], Any]:
    """The function that reads a value of this kind."""
    code = _Reading(version, flexible)
    value = code.value(kind)
    code.flush()
    code.line(f"return {value}")
    made: Callable[[Reader], Any] = code.function("r")
    return made


@cache
def writing(kind: Kind, version: int, flexible: bool) -> Callable[[Writer, Any], Steps | None]:
    """The function that writes a value of this kind: at once, or in steps if it has a large array."""
    code = _Writing(version, flexible)
    code.value(kind, "value")
    code.flush()
    made: Callable[[Writer, Any], Steps | None] = code.function("w, value")
    return made


class _Code(ABC):
    """The source of one function."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self._lines: list[str] = []
        self._depth = 1
        self._names: dict[str, Any] = {"new": tuple.__new__}

    def line(self, source: str) -> None:
        self._lines.append("    " * self._depth + source)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self.flush()
        self._depth -= 1

    @abstractmethod
    def flush(self) -> None:
        """Ends a row of numbers."""

    def fresh(self) -> str:
        """A new name."""
        name = f"x{len(self._names)}"
        self._names[name] = None
        return name

    def let(self, source: str) -> str:
        """Gives a value a name."""
        name = self.fresh()
        self.line(f"{name} = {source}")
        return name

    def literal(self, value: Any) -> str:
        """The source of a value that the declaration has."""
        if isinstance(value, _LITERALS):
            return repr(value)
        name = self.fresh()
        self._names[name] = value
        return name

    def function(self, arguments: str) -> Any:
        source = f"def made({arguments}):\n" + "\n".join(self._lines or ["    pass"])
        exec(source, self._names)
        return self._names["made"]


class _Reading(_Code):
    """Reads in the order of the wire, and makes the values at the end."""

    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__(version, flexible)
        self._row: list[tuple[Number, str | None]] = []
        """Numbers that are not read yet, and the name for each; None for one that is ignored."""

    def flush(self) -> None:
        row, self._row = self._row, []
        names = [name for _, name in row if name is not None]
        if not row:
            return
        if not names:
            self.line(f"r.skip({sum(number.size_bytes for number, _ in row)})")
        elif len(row) == 1:
            self.line(f"{names[0]} = r.{row[0][0].read}()")
        else:
            codes = "".join(number.code if name else f"{number.size_bytes}x" for number, name in row)
            self.line(f"{', '.join(names)}, = r.numbers({self.literal(struct.Struct(f'>{codes}'))})")

    def value(self, kind: Kind, *, nullable: bool = False) -> str:
        """The source of the value. What it needs is read before."""
        match kind:
            case Number():
                self._row.append((kind, name := self.fresh()))
                return name
            case Primitive():
                self.flush()
                return self.let(f"r.{'nullable_' if nullable else ''}{kind.read}()")
            case Array():
                self.flush()
                return self._array(kind, nullable=nullable)
            case One():
                return f"({self.value(kind.of)},)"
            case Inline():
                return self._struct(kind.of, ends=False)
            case Struct():
                return self._nullable(kind) if nullable else self._struct(kind, ends=True)

    def _nullable(self, kind: Struct[Any]) -> str:
        """A structure behind a number that is negative for null."""
        self.flush()
        found = self.let("None")
        with self.block("if r.int8() >= 0:"):
            value = self._struct(kind, ends=True)
            self.flush()
            self.line(f"{found} = {value}")
        return found

    def _array(self, kind: Array, *, nullable: bool) -> str:
        least = bytes_min(kind.of, self.version, flexible=self.flexible)
        count = self.let(f"r.{'nullable_' if nullable else ''}count({least})")
        if isinstance(kind.of, Number | Primitive):
            made = self.let(f"tuple([r.{kind.of.read}() for _ in range({count})])")
        else:
            elements = self.let("[]")
            with self.block(f"for _ in range({count}):"):
                element = self.value(kind.of)
                self.flush()
                self.line(f"{elements}.append({element})")
            made = f"tuple({elements})"
        return f"(None if {count} < 0 else {made})" if nullable else made

    def _struct(self, kind: Struct[Any], *, ends: bool) -> str:
        found: dict[str, str] = {}
        tagged = []
        for row in kind.in_version(self.version):
            if row.tag is not None:
                tagged.append(row)
            elif row.to is None and isinstance(row.kind, Number):
                self._row.append((row.kind, None))
            else:
                value = self.value(row.kind, nullable=row.may_be_null(self.version))
                if row.to is not None:
                    found[row.to] = f"{self.literal(row.read)}({value})" if row.read else value
        if ends and self.flexible:
            self.flush()
            self._tags(kind, tagged, found)
        if kind.value is None:
            (only,) = found.values()
            return only
        each = [found.get(name) or self.literal(kind.absent(name)) for name in kind.value._fields]
        return f"new({self.literal(kind.value)}, ({', '.join(each)},))"

    def _tags(self, kind: Struct[Any], tagged: list[Row], found: dict[str, str]) -> None:
        if not tagged:
            self.line("r.tags()")
            return
        readers = {row.tag: reading(row.kind, self.version, self.flexible) for row in tagged}
        tags = self.let(f"r.known_tags({self.literal(readers)})")
        for row in tagged:
            if row.to is not None:
                found[row.to] = f"{tags}.get({row.tag}, {self.literal(kind.absent(row.to))})"


class _Writing(_Code):
    """Writes in the order of the wire."""

    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__(version, flexible)
        self._row: list[tuple[str, str]] = []
        """Numbers that are not written yet: codes and sources."""
        self._writer = "w"

    def flush(self) -> None:
        row, self._row = self._row, []
        if row:
            numbers = self.literal(struct.Struct(">" + "".join(code for code, _ in row)))
            self.line(f"{self._writer}.numbers({numbers}, {', '.join(source for _, source in row)})")

    def value(self, kind: Kind, source: str, *, nullable: bool = False) -> None:
        """`source` is a name, or a literal."""
        match kind:
            case Number():
                self._row.append((kind.code, source))
                return
            case Primitive():
                self.flush()
                or_empty = "" if nullable or kind.empty is None else f" or {kind.empty}"
                self.line(f"{self._writer}.{kind.write}({source}{or_empty})")
            case Array():
                self.flush()
                self._array(kind, source, nullable=nullable)
            case One():
                self.line(f"{(only := self.fresh())}, = {source}")
                self.value(kind.of, only)
            case Inline():
                self._struct(kind.of, source, ends=False)
            case Struct() if nullable:
                self._nullable(kind, source)
            case Struct():
                self._struct(kind, source, ends=True)

    def _nullable(self, kind: Struct[Any], source: str) -> None:
        self.flush()
        with self.block(f"if {source} is None:"):
            self._row.append(("b", "-1"))
        with self.block("else:"):
            self._row.append(("b", "1"))
            self._struct(kind, source, ends=True)

    def _array(self, kind: Array, source: str, *, nullable: bool) -> None:
        elements = self.let(f"{source} or ()")
        length = f"-1 if {source} is None else len({elements})" if nullable else f"len({elements})"
        self.line(f"{self._writer}.length({length})")
        if isinstance(kind.of, Number):
            self.line(f"if {elements}: {self._writer}.alike({kind.of.code!r}, {elements})")
            return
        element, number = self.fresh(), self.fresh()
        steps = _has_large(kind.of, self.version)
        if not kind.large:
            head = f"for {element} in {elements}:"
        else:
            head = f"for {number}, {element} in enumerate({elements}):"
        with self.block(head):
            if kind.large:
                self.line(f"if not {number} % {ELEMENTS_PER_STEP}: yield")
            self.value(kind.of, element)
            self.flush()
            if steps:
                self.line("yield")

    def _struct(self, kind: Struct[Any], source: str, *, ends: bool) -> None:
        rows = list(kind.in_version(self.version))
        names = self._attributes(kind, rows, source)
        tagged = []
        for row in rows:
            if row.tag is not None:
                tagged.append(row)
                continue
            if row.write is not None:
                found = self.let(f"{self.literal(row.write)}({source})")
            elif row.to is not None:
                found = names[row.to]
            else:
                found = f"{self._writer}.throttle_ms" if row.throttle else self.literal(row.constant)
            self.value(row.kind, found, nullable=row.may_be_null(self.version))
        if not ends or not self.flexible:
            return
        if tagged:
            self._tags(tagged, names)
        else:
            self._row.append(("b", "0"))

    def _attributes(self, kind: Struct[Any], rows: list[Row], source: str) -> dict[str, str]:
        """The names of the attributes that the version has."""
        wanted = {row.to for row in rows if row.to is not None and row.write is None}
        if kind.value is None:
            return dict.fromkeys(wanted, source)
        names = {name: self.fresh() for name in kind.value._fields if name in wanted}
        if names:
            self.line(f"{', '.join(names.get(name, '_') for name in kind.value._fields)}, = {source}")
        return names

    def _tags(self, tagged: list[Row], names: dict[str, str]) -> None:
        self.flush()
        fields, outer = self.let("[]"), self._writer
        for row in tagged:
            if row.to is not None:
                with self.block(f"if {names[row.to]}:"):
                    self._writer = self.let(f"{outer}.nested()")
                    self.value(row.kind, names[row.to])
                    self.flush()
                    self.line(f"{fields}.append(({row.tag}, {self._writer}))")
                self._writer = outer
        self.line(f"{outer}.tags({fields})")


def _has_large(kind: Kind, version: int) -> bool:
    """Whether a value is written in steps."""
    match kind:
        case Array():
            return kind.large or _has_large(kind.of, version)
        case One() | Inline():
            return _has_large(kind.of, version)
        case Struct():
            return any(_has_large(row.kind, version) for row in kind.in_version(version))
        case _:
            return False
