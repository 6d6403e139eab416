"""Reads Kafka's definitions of its messages from the jar of its clients, and resolves them for a version.

Kafka generates its own codec from these files, so what is encoded here owes nothing to strandline's tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from uuid import UUID
from zipfile import ZipFile

Definition = Mapping[str, Any]

_FILES: Final = re.compile(r"common/message/(\w+)(Request|Response)\.json")
_COMMENT: Final = re.compile(r"^\s*//.*$", re.MULTILINE)
_OPEN_END: Final = 2**15
NO_ID: Final = UUID(int=0)
_ZEROS: Final[Mapping[str, Any]] = {
    "bool": False,
    "float64": 0.0,
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": NO_ID,
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field in one version. `fields` are those of a structure; `tag` is None if it is not tagged."""

    name: str
    type: str
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: Any
    fields: tuple[Field, ...] = ()

    @property
    def is_struct(self) -> bool:
        return self.type == "struct"


class Messages:
    """The requests and answers of all APIs that one jar defines."""

    def __init__(self, definitions: Sequence[Definition]) -> None:
        self._found = {(each["apiKey"], each["type"]): each for each in definitions if "apiKey" in each}
        self.keys: Mapping[str, int] = {
            each["name"].removesuffix("Request"): each["apiKey"]
            for each in self._found.values()
            if each["type"] == "request"
        }
        self.names: Mapping[int, str] = {key: name for name, key in self.keys.items()}

    @classmethod
    def read(cls, jar: Path) -> Messages:
        """Reads them from the jar of kafka-clients."""
        return cls(read_definitions(jar))

    def defines(self, api: str, version: int) -> bool:
        return version in versions(self._found[self.keys[api], "request"]["validVersions"])

    def is_flexible(self, api: str, version: int) -> bool:
        return version in versions(self._found[self.keys[api], "request"]["flexibleVersions"])

    @cache  # noqa: B019, a run has one table of messages
    def fields(self, api: str, kind: str, version: int) -> tuple[Field, ...]:
        """The fields of a `request` or `response`. Raises KeyError if the jar does not define it."""
        definition = self._found[self.keys[api], kind]
        common = {each["name"]: each["fields"] for each in definition.get("commonStructs", ())}
        return _resolved(definition["fields"], common, version)

    @cache  # noqa: B019
    def names_of_fields(self, api: str) -> frozenset[str]:
        """The names of fields that requests of the API have in any version, at any depth."""
        definition = self._found[self.keys[api], "request"]
        common = [field for each in definition.get("commonStructs", ()) for field in each["fields"]]
        return frozenset(_names([*definition["fields"], *common]))


def read_definitions(jar: Path) -> list[Definition]:
    """The definitions of requests and answers in the jar of kafka-clients."""
    with ZipFile(jar) as files:
        return [
            json.loads(_COMMENT.sub("", files.read(name).decode()))
            for name in files.namelist()
            if _FILES.fullmatch(name)
        ]


def versions(text: str) -> range:
    """As Kafka writes them: `none`, `3`, `0-4`, `2+`."""
    if text == "none":
        return range(0)
    first, dash, last = text.removesuffix("+").partition("-")
    end = _OPEN_END if text.endswith("+") else int(last if dash else first) + 1
    return range(int(first), end)


def _names(fields: Sequence[Definition]) -> list[str]:
    return [name for each in fields for name in (each["name"], *_names(each.get("fields", ())))]


def _resolved(
    fields: Sequence[Definition], common: Mapping[str, Sequence[Definition]], version: int
) -> tuple[Field, ...]:
    return tuple(_field(field, common, version) for field in fields if version in versions(field["versions"]))


def _field(definition: Definition, common: Mapping[str, Sequence[Definition]], version: int) -> Field:
    bare = definition["type"].removeprefix("[]")
    is_array = definition["type"].startswith("[]")
    inner = definition.get("fields") or common.get(bare)
    fields = _resolved(inner, common, version) if inner else ()
    kind = "struct" if inner else bare
    return Field(
        name=definition["name"],
        type=kind,
        is_array=is_array,
        is_nullable=version in versions(definition.get("nullableVersions", "none")),
        tag=definition["tag"] if version in versions(definition.get("taggedVersions", "none")) else None,
        default=_default(definition, kind, fields, is_array=is_array, version=version),
        fields=fields,
    )


def _default(
    definition: Definition, kind: str, fields: tuple[Field, ...], *, is_array: bool, version: int
) -> Any:
    text = definition.get("default")
    if text == "null":
        may_be_null = version in versions(definition.get("nullableVersions", "none"))
        return None if may_be_null else _zero(kind, fields, is_array=is_array)
    if text in (None, "") or is_array:
        return _zero(kind, fields, is_array=is_array)
    if kind == "bool":
        return str(text).lower() == "true"
    return text if kind == "string" else float(text) if kind == "float64" else int(str(text), 0)


def _zero(kind: str, fields: tuple[Field, ...], *, is_array: bool) -> Any:
    if is_array:
        return []
    if kind == "struct":
        return {field.name: field.default for field in fields}
    return _ZEROS.get(kind, 0)
