"""What a program answers that takes its settings from the environment and a file, and no arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel

from strandline.errors import SettingsError

PREFIX: Final = "STRANDLINE_"
"""The environment variable of a setting is this prefix and the setting's name, in letters of any case."""

HELP: Final = ("--help", "-h")


def usage(program: str, cls: type[BaseModel], arguments: Sequence[str]) -> str | None:
    """The help of `python -m program`, whose settings are of `cls`; None if there are no arguments.

    Raises SettingsError for any other argument."""
    if not arguments:
        return None
    needed = [name for name, info in cls.model_fields.items() if info.is_required()]
    if not set(arguments).issubset(HELP):
        raise SettingsError(
            f"{arguments[0]!r}: python -m {program} takes no arguments. Set variables such as {PREFIX}PORT, "
            f"or name a TOML file by {PREFIX}CONFIG"
        )
    variables = " and ".join(f"{PREFIX}{name.upper()}" for name in needed)
    return "\n".join(
        [
            f"Usage: python -m {program}",
            "",
            f"Its settings are variables of the environment ({PREFIX} and the name in capitals), or in",
            f"the TOML file that {PREFIX}CONFIG names. docs/run/settings.md has them all.",
            *([f"Needed: {variables}."] if needed else []),
        ]
    )
