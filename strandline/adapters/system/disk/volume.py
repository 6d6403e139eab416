"""Identifies the attachment of the disk below a folder, as far as the kernel reports it.

A disk that is detached before unsynced data was written to it loses that data, although the machine
kept running: the boot id is the same, and after the disk is attached again so are its name and its
contents. Linux (from 5.15 on) numbers each attachment (`diskseq`) and never reuses a number within
one boot. A file system has no number if it is on no local disk (network, memory, overlay), on
several (btrfs), or if its disk is not visible (a container without /sys). There a detachment is not
detected.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

SYSFS: Final = Path("/sys")
_DEPTH_MAX: Final = 8
"""Limit for disks composed of other disks; no real system is deeper."""


def volume_identity(folder: Path, *, sysfs: Path = SYSFS) -> str:
    """The numbers of the disks below a folder, in order. The text differs after a detachment; "" if
    unknown."""
    device = folder.stat().st_dev
    start = sysfs / "dev" / "block" / f"{os.major(device)}:{os.minor(device)}"
    try:
        return ",".join(str(number) for number in sorted(_disks(start.resolve(strict=True), _DEPTH_MAX)))
    except (OSError, ValueError):
        return ""


def _disks(device: Path, depth: int) -> set[int]:
    """The number of the disk, or of a partition's disk, and those of the disks that it is composed of."""
    found: set[int] = set()
    for disk in (device, device.parent):
        if (disk / "diskseq").is_file():
            found.add(int((disk / "diskseq").read_text()))
            break
    slaves = device / "slaves"
    if depth and slaves.is_dir():
        for slave in slaves.iterdir():
            found |= _disks(slave.resolve(strict=True), depth - 1)
    return found
