"""The sync of a whole file system is used only where it keeps the promise of `fsync` for each file."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from strandline.adapters.system.disk.file_system_sync import can_sync_file_system, is_recent, sync_file_system
from strandline.adapters.system.files import SystemFiles

PROC = Path("/proc/self/status")


@pytest.mark.parametrize(
    ("release", "recent"),
    [("5.7.19", False), ("5.8", True), ("5.15.0-91-generic", True), ("6.1.0-rc1+", True), ("4.19", False),
     ("10.0.1", True), ("unknown", False)],
)  # fmt: skip
def test_a_kernel_before_5_8_reports_no_failed_write(release: str, recent: bool) -> None:
    """CORRECTNESS E3: there each file is synced."""
    assert is_recent(release) is recent


@pytest.mark.skipif(not PROC.exists(), reason="needs /proc, a file system on no disk")
def test_a_file_system_of_an_unknown_kind_is_not_synced_as_a_whole() -> None:
    descriptor = os.open(PROC, os.O_RDONLY)
    try:
        assert not can_sync_file_system(descriptor)
        assert not SystemFiles().sync_all(descriptor)
    finally:
        os.close(descriptor)


def test_a_closed_descriptor_syncs_nothing(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.close(descriptor)
    assert not can_sync_file_system(descriptor)


@pytest.mark.skipif(sys.platform != "linux", reason="the call is one of Linux")
def test_a_refused_call_raises_the_error_of_the_system(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor") as raised:
        sync_file_system(descriptor)
    assert raised.value.errno == errno.EBADF


def test_the_disk_of_this_folder_is_synced_or_said_to_be_none(tmp_path: Path) -> None:
    files = SystemFiles()
    descriptor = files.lock(tmp_path / "lock")
    assert files.sync_all(descriptor) is can_sync_file_system(descriptor)
    files.close(descriptor)
