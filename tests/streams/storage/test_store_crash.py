"""A process dies in the midst of its writes: what is found is a prefix of them, with its checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strandline.streams.storage.errors import StoreInUse
from strandline.streams.storage.task_store import TaskStore
from tests.streams.storage.content import IDENTITY, check

VALUE_BYTES = 40_000
"""Forty batches fill a memtable, so a few hundred bring some to disk and compact them."""


@contextmanager
def writing(folder: Path, value_bytes: int = VALUE_BYTES) -> Iterator[subprocess.Popen[str]]:
    """A process that writes; it is killed at the end of the block, at any point of its work."""
    command = [sys.executable, "-m", "tests.streams.storage.writer", str(folder), str(value_bytes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            os.kill(process.pid, signal.SIGKILL)


def read_until(process: subprocess.Popen[str], applied: int) -> int:
    """Wait until that many batches were applied: the checkpoint with which the process began."""
    assert process.stdout is not None
    begun = int(process.stdout.readline().removeprefix("open "))
    for line in process.stdout:
        if int(line) >= begun + applied:
            break
    return begun


@pytest.mark.timeout(120)
def test_a_killed_writer_leaves_a_prefix_of_its_batches_with_its_checkpoint(tmp_path: Path) -> None:
    """A tail may be missing, for it is in the changelog; nothing is torn (CORRECTNESS S3)."""
    folder = tmp_path / "counts-3"
    reached = 0
    for life, applied in enumerate((30, 170, 333, 1, 250)):
        with writing(folder) as process:
            begun = read_until(process, applied)
        assert begun == reached, "what was found once is there for the next one too"
        store = TaskStore.open(folder, IDENTITY)
        try:
            assert store.checkpoint >= begun
            check(store, VALUE_BYTES)
            reached = store.checkpoint
        finally:
            store.close()
        if life == 0:
            assert reached <= 60
    assert reached > 300, "memtables that were full are on disk"


def test_a_killed_process_frees_its_store(tmp_path: Path) -> None:
    """While it lives no other process has the store, and nothing is done to it."""
    folder = tmp_path / "counts-3"
    with writing(folder, 100) as process:
        read_until(process, 1)
        with pytest.raises(StoreInUse, match="another process or task"):
            TaskStore.open(folder, IDENTITY)
        with pytest.raises(StoreInUse):
            TaskStore.open(folder, "of another changelog")
        read_on = process.stdout
        assert read_on is not None and read_on.readline(), "it continues"
    TaskStore.open(folder, IDENTITY).close()
