"""HTML from nested calls: `tag("p", "a < b", id="x")`. Whatever is not markup already is escaped."""

from __future__ import annotations

import html
from typing import Final

VOID: Final = frozenset({"meta", "img", "br", "hr"})
"""Elements that have no content, and no end."""


class Markup(str):
    """Text that is HTML, and stands as it is."""

    __slots__ = ()


def tag(name: str, /, *content: object, **attributes: str) -> Markup:
    """An element. `class_` is the attribute `class`; one without a value is left out."""
    said = {key.rstrip("_"): html.escape(value) for key, value in attributes.items() if value}
    named = "".join(f' {key}="{value}"' for key, value in said.items())
    if name in VOID:
        return Markup(f"<{name}{named}>")
    return Markup(f"<{name}{named}>{joined(*content)}</{name}>")


def joined(*content: object) -> Markup:
    """One after the other."""
    return Markup("".join(each if isinstance(each, Markup) else html.escape(str(each)) for each in content))
