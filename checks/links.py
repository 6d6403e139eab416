"""Finds links to missing files or headings, and code spans that name missing files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
SPAN = re.compile(r"`([a-z_]+/[\w./-]+)`")
"""A path of the tree: `broker/core`, but not `{topic}/{partition}`."""
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(markdown: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        for heading in HEADING.findall(FENCE.sub("", markdown))
    }


def problems(page: Path, root: Path) -> Iterator[str]:
    """Broken links of one page, and paths in it that do not exist."""
    text = FENCE.sub("", page.read_text())
    for name in SPAN.findall(text):
        if (root / name.split("/")[0]).is_dir() and not (root / name).exists():
            yield f"{page.relative_to(root)}: names {name}: no such file"
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            yield f"{page.relative_to(root)}: link to {link}: no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            yield f"{page.relative_to(root)}: link to {link}: no such heading"
