"""A disk that was detached and attached again is distinguished from one that was there all the time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strandline.adapters.system.disk.volume import volume_identity


class Sysfs:
    """The part of /sys that is looked at, with the disk that `tmp_path` is said to lie on."""

    def __init__(self, root: Path) -> None:
        self.root = root
        device = root.stat().st_dev
        self.link = root / "dev" / "block" / f"{os.major(device)}:{os.minor(device)}"
        self.link.parent.mkdir(parents=True)

    def disk(self, name: str, number: int) -> Path:
        path = self.root / "devices" / name
        (path / "slaves").mkdir(parents=True)
        (path / "diskseq").write_text(f"{number}\n")
        return path


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path)


def test_a_disk_that_was_attached_again_is_another_one(sysfs: Sysfs, tmp_path: Path) -> None:
    disk = sysfs.disk("vda", 9)
    sysfs.link.symlink_to(disk)
    before = volume_identity(tmp_path, sysfs=tmp_path)
    assert before == "9"
    (disk / "diskseq").write_text("10\n")
    assert volume_identity(tmp_path, sysfs=tmp_path) == "10"


def test_a_partition_is_its_disks(sysfs: Sysfs, tmp_path: Path) -> None:
    partition = sysfs.disk("vda", 9) / "vda1"
    partition.mkdir()
    sysfs.link.symlink_to(partition)
    assert volume_identity(tmp_path, sysfs=tmp_path) == "9"


def test_a_mapped_disk_is_also_those_below_it(sysfs: Sysfs, tmp_path: Path) -> None:
    """LVM: the mapping stays while a disk under it goes and comes."""
    mapped = sysfs.disk("dm-0", 12)
    for name, number in (("sda", 3), ("sdb", 40)):
        (mapped / "slaves" / name).symlink_to(sysfs.disk(name, number))
    sysfs.link.symlink_to(mapped)
    assert volume_identity(tmp_path, sysfs=tmp_path) == "3,12,40"


def test_an_unnumbered_volume_is_unknown(tmp_path: Path) -> None:
    assert volume_identity(tmp_path, sysfs=tmp_path) == ""


def test_this_machines_answer_stays_the_same(tmp_path: Path) -> None:
    assert volume_identity(tmp_path) == volume_identity(tmp_path)
