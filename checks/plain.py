"""Finds words that are not plain English in docstrings, comments and pages."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

PATHS: tuple[str, ...] = ("*.md", "checks", "docker", "examples", "lab", "strandline", "tests")
"""Folders and files whose text is checked. Add a path once it is clean."""

ADVICE = {
    r"any more": "no longer, now",
    r"by and by": "over time",
    r"for ever": "forever",
    r"may as well (?!be\b)": "optional",
    r"whoever|whatever": "name the thing",
    r"nobody|somebody|anybody|everybody": "name it: no broker, another client",
    r"so (?:many|much|long|often)": "this many, or the number",
    r"(?:is|are|was|were|be|been|being) told": "is notified, gets, receives",
}
SPACE = r"\s+"  # a phrase may continue on the next line
BANNED = re.compile("|".join(rf"\b({words.replace(' ', SPACE)})\b" for words in ADVICE), re.IGNORECASE)
EXCEPTIONS = frozenset({"checks/plain.py", "tests/checks/test_plain.py"})
"""They contain the words."""


def problems(root: Path, paths: tuple[str, ...] = PATHS) -> Iterator[str]:
    """Each use of a banned word below `paths`, as `file:line: 'word': what to say instead`."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *paths],
        cwd=root, text=True, capture_output=True, check=True,
    )  # fmt: skip
    for name in sorted({*listed.stdout.splitlines()} - EXCEPTIONS):
        if (root / name).is_file() and name.endswith((".py", ".md")) and "_pb2" not in name:
            yield from banned(name, (root / name).read_text())


def banned(name: str, text: str) -> Iterator[str]:
    """The banned words of one file; only in docstrings and comments if it is Python."""
    for line, prose in prose_of(text) if name.endswith(".py") else [(1, text)]:
        for match in BANNED.finditer(prose):
            if not match.group().isupper():  # as constants such as NOBODY are
                found = " ".join(match.group().split())
                advice = [*ADVICE.values()][(match.lastindex or 0) - 1]
                yield f"{name}:{line + prose.count(chr(10), 0, match.start())}: {found!r}: {advice}"


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a Python file, each with its first line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.string.startswith(("#", '"""')):
            yield token.start[0], token.string
