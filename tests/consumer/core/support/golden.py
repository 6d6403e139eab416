"""Transcripts that are reviewed as text.

After a change that is meant, `REWRITE_TRANSCRIPTS=1 pytest tests/consumer/core` writes them anew; the diff
is then part of the review.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "transcripts"


def read(name: str) -> str:
    path = FOLDER / f"{name}.txt"
    return path.read_text() if path.exists() else ""


def check(name: str, text: str) -> None:
    """The transcript is what it was."""
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        (FOLDER / f"{name}.txt").write_text(text)
    assert text.splitlines() == read(name).splitlines()
