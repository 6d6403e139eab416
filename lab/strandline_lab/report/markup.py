"""HTML from nested calls: `tag("p", "a < b", id="x")`. Text that is not `Markup` is escaped."""

from __future__ import annotations

import html
from typing import Final

VOID: Final = frozenset({"meta", "img", "br", "hr"})
"""Elements without content or an end tag."""


class Markup(str):
    """Text that is HTML already, and is not escaped."""

    __slots__ = ()


def tag(name: str, /, *content: object, **attributes: str) -> Markup:
    """An element. `class_` is the attribute `class`; an attribute without a value is left out."""
    said = {key.rstrip("_"): html.escape(value) for key, value in attributes.items() if value}
    named = "".join(f' {key}="{value}"' for key, value in said.items())
    if name in VOID:
        return Markup(f"<{name}{named}>")
    return Markup(f"<{name}{named}>{joined(*content)}</{name}>")


def joined(*content: object) -> Markup:
    """The contents, one after the other."""
    return Markup("".join(each if isinstance(each, Markup) else html.escape(str(each)) for each in content))
