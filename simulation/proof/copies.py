"""Copies of the package tree, to be changed and run without touching the one at hand."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import strandline

ROOT: Final = Path(strandline.__file__).resolve().parents[1]
"""The top of the repository."""


@contextmanager
def copied_tree() -> Iterator[Path]:
    """A copy of all packages, deleted at the end. `PYTHONPATH` set to it makes Python import from there."""
    packages = [link.name for link in (ROOT / "strandline").iterdir() if link.is_symlink()]
    with tempfile.TemporaryDirectory(prefix="strandline-proof-") as folder:
        tree = Path(folder)
        for package in ("strandline", *packages):
            shutil.copytree(ROOT / package, tree / package, symlinks=True)
        yield tree
