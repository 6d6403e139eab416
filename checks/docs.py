"""Compares the pages with the code: links, settings, errors, and the tests of docs/correctness.md.

As a command (`make docs`) it rewrites the generated parts instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from checks import doc_tables, links, rows

CORRECTNESS = Path("docs/correctness.md")
CORRECTNESS_TESTS = Path("docs/correctness-tests.md")
TROUBLESHOOTING = Path("docs/run/troubleshooting.md")
PACKAGES = ("strandline", "lab/strandline_lab")


def pages(root: Path) -> list[Path]:
    """The pages: those at the top and those in docs/."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def current(page: Path, root: Path) -> str:
    """The page as it should be, given the code and the tests."""
    if page == root / CORRECTNESS_TESTS:
        return rows.listed((root / CORRECTNESS).read_text(), rows.holders(root))
    return doc_tables.rewrite(page.read_text())


def unsaid(page: str, root: Path) -> Iterator[str]:
    """Messages of the page's table "it says" that are not in the code."""
    # Adjacent literals are one message.
    sources = (path.read_text() for package in PACKAGES for path in (root / package).rglob("*.py"))
    said = re.sub(r'"\s*f?"', "", "\n".join(sources))
    _, header, table = page.partition("| it says |")
    if not header:
        yield f'{TROUBLESHOOTING}: has no table "it says"; its messages cannot be compared with the code'
    for message in re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE):
        if message not in said:
            yield f"{TROUBLESHOOTING}: no code prints {message!r}"


def problems(root: Path) -> list[str]:
    """The problems of all pages, a line each."""
    found: list[str] = []
    for page in pages(root):
        found += links.problems(page, root)
        if current(page, root) != page.read_text():
            found.append(f"{page.relative_to(root)}: is not what the code says now; run make docs")
    found += doc_tables.missing(pages(root))
    found += unsaid((root / TROUBLESHOOTING).read_text(), root)
    found += rows.problems((root / CORRECTNESS).read_text(), rows.holders(root), rows.left_out(root))
    return found


def main() -> None:
    root = Path(__file__).resolve().parent.parent
    for page in pages(root):
        text = current(page, root)
        if text != page.read_text():
            page.write_text(text)
            print(f"{page.relative_to(root)} rewritten")


if __name__ == "__main__":
    main()
