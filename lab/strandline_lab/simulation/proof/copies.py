"""Copies of strandline's package, to be changed and run without touching the one at hand."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import strandline

PACKAGE: Final = Path(strandline.__file__).resolve().parent


@contextmanager
def copied_tree() -> Iterator[Path]:
    """A folder with a copy of the package, deleted at the end; for `PYTHONPATH`."""
    with tempfile.TemporaryDirectory(prefix="strandline-proof-") as folder:
        tree = Path(folder)
        shutil.copytree(PACKAGE, tree / PACKAGE.name)
        yield tree
