"""Reads the values of forms and queries. What cannot be read raises InvalidRequest with the field's name, its
value, and what to give instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from strandline.client.arguments import INT32_MAX
from strandline.console.core.words import ms_of
from strandline.errors import InvalidRequest

VALUE_CHARS_MAX: Final = 300
"""The longest text of one field, unless the field says otherwise."""
BROKERS_MAX: Final = 100
"""Brokers that one field names."""


@dataclass(frozen=True, slots=True)
class Form:
    """The values of a form by field; a field that is missing or blank counts as not given."""

    values: Mapping[str, str]

    def raw(self, name: str, *, chars_max: int) -> str:
        """The text of a field as it was given, with its spaces."""
        value = self.values.get(name, "")
        if len(value) > chars_max:
            raise InvalidRequest(f"{name} has {len(value)} characters: give {chars_max} at most")
        return value

    def text(self, name: str, *, chars_max: int = VALUE_CHARS_MAX) -> str:
        """The text of a field without spaces around it, empty if it was not given."""
        return self.raw(name, chars_max=chars_max).strip()

    def needed(self, name: str, *, chars_max: int = VALUE_CHARS_MAX) -> str:
        """As `text`, of a field that has to be given."""
        if value := self.text(name, chars_max=chars_max):
            return value
        raise InvalidRequest(f"{name} is missing: give it")

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of these choices; the first one if the field was not given."""
        value = self.text(name) or choices[0]
        if value not in choices:
            raise InvalidRequest(f"{name} = {value!r}: give one of {', '.join(choices)}")
        return value

    def flag(self, name: str) -> bool:
        """Whether a box was ticked."""
        return bool(self.text(name))

    def whole(self, name: str, least: int, most: int, default: int | None = None) -> int:
        """A whole number within these bounds; `default` if it was not given."""
        value = self.text(name)
        if not value and default is not None:
            return default
        return _whole(name, value, least, most)

    def whole_or_none(self, name: str, least: int, most: int) -> int | None:
        """As `whole`; None if it was not given."""
        value = self.text(name)
        return _whole(name, value, least, most) if value else None

    def time_ms(self, name: str) -> int:
        """A time in ISO 8601 as milliseconds since 1970; in UTC if it names no zone."""
        value = self.text(name)
        at_ms = ms_of(value)
        if at_ms is None:
            raise InvalidRequest(
                f"{name} = {value!r}: give a time from 1970 on, such as 2026-11-20T14:30 (UTC)"
            )
        return at_ms

    def brokers(self, name: str) -> tuple[int, ...]:
        """Ids of brokers with commas between them; none if the field was not given."""
        value = self.text(name, chars_max=12 * BROKERS_MAX)
        if not value:
            return ()
        found = tuple(_whole(name, each.strip(), 0, INT32_MAX) for each in value.split(","))
        if len(found) > BROKERS_MAX:
            raise InvalidRequest(f"{name} names {len(found)} brokers: name {BROKERS_MAX} at most")
        return found


def _whole(name: str, value: str, least: int, most: int) -> int:
    digits = value[1:] if value[:1] in ("+", "-") else value
    if digits.isascii() and digits.isdecimal() and len(digits) <= 19:
        number = int(value)
        if least <= number <= most:
            return number
    raise InvalidRequest(f"{name} = {value!r}: give a whole number from {least} to {most}")
