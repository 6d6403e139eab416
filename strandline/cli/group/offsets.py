"""The arguments of `group reset-offsets`, and its JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from strandline.cli.records.start import OFFSET_MAX, StartType
from strandline.client.resets.plan import Chosen, Reset, Shift, Since, Target, listed_partitions
from strandline.errors import InvalidRequest


class TargetType(click.ParamType[Target]):
    """`earliest`, `latest`, an offset, a time in ISO 8601, or `+N` and `-N` from the committed offset."""

    name = "target"
    _start = StartType()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        """Reads one value; an invalid one is wrong usage."""
        if isinstance(value, str) and value[:1] in ("+", "-"):
            if value[1:].isdecimal() and int(value[1:]) <= OFFSET_MAX:
                return Shift(int(value))
            self.fail(f"{value!r} is no shift such as +100 or -100, below 2^63", param, ctx)
        if isinstance(value, Shift | Since):
            return value  # click converts a converted value again
        start = self._start.convert(value, param, ctx)
        return Since(int(start.timestamp() * 1000)) if isinstance(start, datetime) else start


class ChosenType(click.ParamType[Chosen]):
    """`TOPIC`, or `TOPIC:0,2,5-7` for some of its partitions."""

    name = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Chosen:
        """Reads one value; an invalid one is wrong usage."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # click converts a converted value again
        topic, colon, listed = value.partition(":")
        if not topic:
            self.fail(f"{value!r} names no topic", param, ctx)
        if not colon:
            return Chosen(topic, None)
        try:
            return Chosen(topic, listed_partitions(listed))
        except InvalidRequest as error:
            self.fail(f"{value!r}: {error.message}", param, ctx)


def plan_json(group: str, resets: Sequence[Reset], *, executed: bool) -> dict[str, Any]:
    """The shape of `group reset-offsets -o json` (docs/use/cli.md)."""
    return {
        "group": group,
        "executed": executed,
        "partitions": [
            {
                "topic": reset.name.topic,
                "partition": reset.name.partition,
                "committed": reset.committed,
                "new": reset.new,
                "change": reset.change,
                "start": reset.bounds.start,
                "end": reset.bounds.end,
                "lag": reset.lag,
                "note": reset.note or None,
            }
            for reset in resets
        ],
    }
