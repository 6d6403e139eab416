"""Finds in a line of a log the user it is about, and the component that wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

SAMPLE = "data/mllib/sample_movielens_data.txt"
"""The path in PySpark's wheel: user::movie::rating."""

UNKNOWN = "-"

RATING = re.compile(r"^(?P<user>\d+)::(?P<movie>\d+)::")
WHO = re.compile(
    r"\b(?:user[ =]|password for (?:invalid user )?)(?P<user>[A-Za-z]\w*)|(?P<host>\d+(?:\.\d+){3})"
)
WHAT = re.compile(
    r"^\[[^]]*\] \[\w+\] (?P<web_server>\w+)"  # [Sun Jan 02 03:04:05 2022] [notice] worker_init() …
    r"|^\w{3} +\d+ [\d:]{8} \S+ (?P<syslog>[\w./-]+)"  # Jan 02 03:04:05 gate sshd[17]: …
    r"|^\S+ [\d:]{8} [A-Z]+ (?P<log4j>[\w.$]+):"  # 22/01/02 03:04:05 INFO storage.BlockManager: …
    r"|^\S+ [\d:,]{12} - [A-Z]+ +\[.*?(?P<located>[\w$]+)@\d+\]"  # 2022-01-02 03:04:05,678 - WARN …
)


def user_of(line: str) -> str:
    """The user of a line, or otherwise the host."""
    if rating := RATING.match(line):
        return f"user {rating['user']}"
    found = WHO.search(line)
    return (found["user"] or found["host"]) if found else UNKNOWN


def component_of(line: str) -> str:
    """The component that wrote a line; for a rating, the movie."""
    if rating := RATING.match(line):
        return f"movie {rating['movie']}"
    found = WHAT.match(line)
    return next(filter(None, found.groups())) if found else UNKNOWN


def lines_in(folder: Path | None) -> Iterator[str]:
    """The lines of every `*.log` in a folder; without a folder, PySpark's sample of movie ratings.

    Raises FileNotFoundError if there is nothing to read.
    """
    if folder is None:
        spec = find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise FileNotFoundError(
                "PySpark, whose sample would be read, is not installed; name a --data folder"
            )
        files = [Path(spec.origin).parent / SAMPLE]
    else:
        files = sorted(folder.glob("*.log"))
        if not files:
            raise FileNotFoundError(f"there is no *.log in {folder}")
    for file in files:
        yield from file.read_text(errors="replace").splitlines()
