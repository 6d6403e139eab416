"""The option that says where reading begins: `--from earliest|latest|OFFSET|TIME`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal

import click

OFFSET_MAX: Final = 2**63 - 1

Start = Literal["earliest", "latest"] | int | datetime


class StartType(click.ParamType[Start]):
    """Where to begin: `earliest`, `latest`, an offset, or a time in ISO 8601 (local if it has no zone)."""

    name = "start"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        """Reads one value; an invalid one is wrong usage."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # click converts a converted default again
        if value == "earliest":
            return "earliest"
        if value == "latest":
            return "latest"
        try:
            if value.isdecimal() and int(value) <= OFFSET_MAX:
                return int(value)
            time = datetime.fromisoformat(value)
            if time.timestamp() >= 0:  # numbers below 0 stand for earliest and latest
                return time
        except (ValueError, OverflowError):  # also for a local time that does not exist
            pass
        self.fail(
            f"{value!r} is neither earliest, latest, an offset below 2^63 nor a time such as "
            "2026-11-20T14:30 from 1970 on",
            param,
            ctx,
        )


from_option = click.option(
    "--from", "start", type=StartType(), default="latest", show_default=True,
    metavar="earliest|latest|OFFSET|TIME", help="Where to begin; TIME in ISO 8601.",
)  # fmt: skip
