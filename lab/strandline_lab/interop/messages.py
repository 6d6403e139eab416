"""Compares the declared messages with the definitions that the jar of Kafka's clients has.

    python -m strandline_lab.interop.messages kafka-clients-4.4.0.jar

Each served version that Kafka still has must have the same fields in the same order, of the same types, with
null where Kafka allows it. A tagged field may be missing, since readers skip those that they do not know.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from strandline.broker.kafka.wire import api_versions, apis
from strandline.broker.kafka.wire.apis import ApiWire
from strandline.broker.kafka.wire.header import API_VERSIONS
from strandline.broker.kafka.wire.table.rows import Array, Inline, Kind, Number, One, Primitive, Row, Struct
from strandline_lab.conformance.definitions import Definition, read_definitions, versions

_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_API_VERSIONS: Final = ApiWire(
    API_VERSIONS,
    "ApiVersions",
    0,
    api_versions.LAST,
    api_versions.FLEXIBLE_SINCE,
    api_versions.REQUEST,
    api_versions.ANSWER,
)
WIRES: Final[Sequence[ApiWire[Any, Any]]] = (
    _API_VERSIONS,
    *(wire for wire in vars(apis).values() if isinstance(wire, ApiWire)),
)


class Field(NamedTuple):
    """One field of one version. `path` has the names of the structures around it."""

    path: str
    type: str
    nullable: bool
    tag: int | None


# --- ours -------------------------------------------------------------------------------------


def declared(struct: Struct[Any], version: int, path: str = "") -> Iterator[Field]:
    """The fields of a declaration."""
    for row in struct.in_version(version):
        yield from _declared_row(row, version, path)


def _declared_row(row: Row, version: int, path: str) -> Iterator[Field]:
    kind, arrays = _bare(row.kind)
    if not row.name:
        assert isinstance(kind, Struct)
        yield from declared(kind, version, path)
        return
    named = f"{path}{row.name}"
    is_struct = isinstance(kind, Struct) and not _is_one_field(row.kind)
    yield Field(named, arrays + _type(kind, is_struct=is_struct), row.may_be_null(version), row.tag)
    if is_struct and isinstance(kind, Struct):
        yield from declared(kind, version, f"{named}.")


def _bare(kind: Kind) -> tuple[Kind, str]:
    """The type within arrays, and a mark for each of those."""
    match kind:
        case Array():
            found, arrays = _bare(kind.of)
            return found, f"[]{arrays}"
        case One() | Inline():
            return _bare(kind.of)
        case _:
            return kind, ""


def _is_one_field(kind: Kind) -> bool:
    """Whether elements of an array are values of one field each, without a structure."""
    return isinstance(kind, Array) and isinstance(kind.of, Inline)


def _type(kind: Kind, *, is_struct: bool) -> str:
    match kind:
        case Number() | Primitive():
            return kind.kafka
        case Struct() if not is_struct:
            (row,) = kind.rows
            return _type(row.kind, is_struct=False)
        case _:
            return "struct"


# --- Kafka's ----------------------------------------------------------------------------------


def definitions(jar: Path) -> dict[tuple[int, str], Definition]:
    """By the API's key and `request` or `response`."""
    return {(each["apiKey"], each["type"]): each for each in read_definitions(jar)}


def defined(definition: Definition, version: int) -> Iterator[Field]:
    """The fields of one of Kafka's messages."""
    common = {each["name"]: each["fields"] for each in definition.get("commonStructs", ())}
    yield from _defined(definition["fields"], common, version, "")


def _defined(
    fields: Sequence[Definition], common: Mapping[str, Sequence[Definition]], version: int, path: str
) -> Iterator[Field]:
    for field in fields:
        if version not in versions(field["versions"]):
            continue
        name, bare = f"{path}{snake_case(field['name'])}", field["type"].removeprefix("[]")
        inner = field.get("fields") or common.get(bare)
        kind = field["type"].replace(bare, "struct") if inner else field["type"]
        nullable = version in versions(field.get("nullableVersions", "none"))
        tagged = version in versions(field.get("taggedVersions", "none"))
        yield Field(name, kind, nullable, field["tag"] if tagged else None)
        if inner:
            yield from _defined(inner, common, version, f"{name}.")


def snake_case(name: str) -> str:
    return _WORD.sub("_", name).lower()


# --- both -------------------------------------------------------------------------------------


def differences(ours: Sequence[Field], kafkas: Sequence[Field]) -> Iterator[str]:
    """In words: fields that are missing, too many, or not alike, and another order."""
    named = {field.path: field for field in ours}
    skipped = {field.path for field in kafkas if field.tag is not None and field.path not in named}
    wanted = [
        field
        for field in kafkas
        if not any(field.path == path or field.path.startswith(f"{path}.") for path in skipped)
    ]
    for field in wanted:
        if field.path not in named:
            yield f"lacks {field}"
        elif named[field.path] != field:
            yield f"has {named[field.path]}, Kafka has {field}"
    known = {field.path for field in wanted}
    yield from (f"has {field}, Kafka does not" for field in ours if field.path not in known)
    order = [field.path for field in ours if field.tag is None]
    if set(order) == {field.path for field in wanted if field.tag is None} and order != [
        field.path for field in wanted if field.tag is None
    ]:
        yield f"has another order: {', '.join(order)}"


def compared(wire: ApiWire[Any, Any], found: Mapping[tuple[int, str], Definition]) -> Iterator[str]:
    """The differences of all served versions of one API that Kafka has."""
    for kind, struct in (("request", wire.request), ("response", wire.answer)):
        definition = found[wire.key, kind]
        flexible = versions(definition["flexibleVersions"])
        for version in wire.versions:
            where = f"{wire.name} {kind} {version}"
            if version not in versions(definition["validVersions"]):
                continue
            if (version in flexible) != wire.flexible(version):
                yield f"{where}: flexible is {wire.flexible(version)} here"
            ours, kafkas = list(declared(struct, version)), list(defined(definition, version))
            yield from (f"{where}: {each}" for each in differences(ours, kafkas))


def main(jar: Path) -> int:
    """Prints the differences, and how much was compared. Returns the exit code."""
    found = definitions(jar)
    wrong = [each for wire in WIRES for each in compared(wire, found)]
    known = sum(
        version in versions(found[wire.key, kind]["validVersions"])
        for wire in WIRES
        for kind in ("request", "response")
        for version in wire.versions
    )
    served = sum(2 * len(wire.versions) for wire in WIRES)
    for each in wrong:
        print(each)
    print(f"{len(WIRES)} APIs: {known} of {served} messages compared, {len(wrong)} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit("give the path of the jar of Kafka's clients, and nothing else")
    sys.exit(main(Path(sys.argv[1])))
