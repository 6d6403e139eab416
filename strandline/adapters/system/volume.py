"""Which attachment of a disk a folder lies on, as far as the kernel says.

A disk that is detached while something is still to be written to it loses that, though the machine never
stopped: the boot is the same, and after it was attached again so are its name and its contents. Linux (from
5.15 on) numbers each attachment (`diskseq`), no number twice in one boot. A file system has no number if it
is on no disk of this machine (over a network, in memory, an overlay), on several (btrfs), or if its disk
cannot be looked at (a container without /sys). There a detachment goes unseen.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

SYSFS: Final = Path("/sys")
_DEPTH_MAX: Final = 8
"""Disks made of disks made of disks: no system has more."""


def volume_identity(folder: Path, *, sysfs: Path = SYSFS) -> str:
    """The numbers of the disks below a folder, in order; another text after a detachment, "" if unknown."""
    device = folder.stat().st_dev
    start = sysfs / "dev" / "block" / f"{os.major(device)}:{os.minor(device)}"
    try:
        return ",".join(str(number) for number in sorted(_disks(start.resolve(strict=True), _DEPTH_MAX)))
    except (OSError, ValueError):
        return ""


def _disks(device: Path, depth: int) -> set[int]:
    """The disk itself, or that of a partition, and those that it is made of."""
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
