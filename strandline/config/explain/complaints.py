"""Says what a setting may be, and what is wrong with one, in words for the one who sets it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

KINDS: Final[dict[Any, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    SecretStr: "text",
    Path: "a path",
}
OWN: Final = ("value_error", "assertion_error")
"""Errors that a validator of the settings raised, in its own words."""


def allowed(info: FieldInfo, number: Callable[[Any], str] = str, word: Callable[[str], str] = str) -> str:
    """The bounds of a setting; empty if it has none. `number` and `word` write a bound and a choice."""
    low = high = above = pattern = shortest = longest = None
    for item in info.metadata:
        above = getattr(item, "gt", above)
        low = getattr(item, "ge", low)
        high = getattr(item, "le", high)
        pattern = getattr(item, "pattern", pattern)
        shortest = getattr(item, "min_length", shortest)
        longest = getattr(item, "max_length", longest)
    if pattern:
        return " or ".join(word(choice) for choice in re.sub(r"[\^$()]", "", pattern).split("|"))
    if longest is not None:
        return f"{shortest or 0} to {longest} characters"
    if above is not None and high is not None:
        return f"above {number(above)}, at most {number(high)}"
    if low is not None and high is not None:
        return f"{number(low)} to {number(high)}"
    if low is not None:
        return f"at least {number(low)}"
    return f"at most {number(high)}" if high is not None else ""


def complaint(cls: type[BaseModel], error: ErrorDetails) -> str:
    """What is wrong, and what to give instead."""
    if error["type"] in OWN:
        return str(error["ctx"]["error"])
    if error["type"] == "missing":
        return "required"
    if error["type"] == "string_unicode":
        return "give text that UTF-8 can write"
    names = {info.alias or name: info for name, info in cls.model_fields.items()}
    name = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        from difflib import get_close_matches  # here: few processes need it

        like = get_close_matches(name, sorted(names), n=1)
        return f"there is no such setting{''.join(f', is it {each}?' for each in like)}"
    info = names[name]
    kind = next((KINDS[each] for each in (*get_args(info.annotation), info.annotation) if each in KINDS), "")
    bounds = allowed(info)
    if not kind or len(error["loc"]) > 1:  # pydantic's words; all settings but a few have one of these kinds
        return error["msg"]
    if any(getattr(item, "pattern", None) for item in info.metadata):
        return f"give {bounds}"  # one of these words
    return f"give {', '.join(filter(None, (kind, bounds)))}"
