"""A cluster's folder names its members (DESIGN, "Running it")."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from strandline.errors import SettingsError
from strandline.local.layout import ClusterFile, Layout, Locked, MemberFile
from strandline.local.process import ProcessId


def some_cluster() -> ClusterFile:
    return ClusterFile(
        zookeeper=MemberFile(id=1, port=2181, pid=17, started=99),
        controllers=[MemberFile(id=1, port=9192)],
        brokers=[MemberFile(id=1, port=9092, rack="east", settings={"keep_in_sync_ms": "500"})],
    )


def test_written_layouts_are_read_back(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "home")
    before = layout.holds_cluster
    layout.write(some_cluster())
    assert (before, layout.holds_cluster) == (False, True)
    assert layout.read() == some_cluster()
    assert layout.read().zookeeper.process_id == ProcessId(17, 99)
    assert layout.read().brokers[0].process_id is None
    assert [path.name for path in layout.directory.iterdir()] == ["cluster.json"]


def test_a_folder_without_a_cluster_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"there is no cluster in .*strandline up"):
        Layout(tmp_path).read()


def test_a_file_that_is_not_ours_is_not_guessed_at(tmp_path: Path) -> None:
    for text in (b'{"brokers": 3}', b"{", b"\xff", b'{"version": 2}'):
        (tmp_path / "cluster.json").write_bytes(text)
        with pytest.raises(
            SettingsError, match=r"cluster\.json is damaged, or not of this version"
        ) as raised:
            Layout(tmp_path).read()
        assert "pydantic" not in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_file_in_the_folders_place_is_reported(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("")
    with pytest.raises(SettingsError, match="home is not a folder"):
        Layout(home)


def test_one_process_at_a_time_starts_or_stops_a_cluster(tmp_path: Path) -> None:
    """And a process that it started does not keep the folder locked."""
    layout = Layout(tmp_path / "home")
    with layout.lock():
        with pytest.raises(Locked, match="another process is starting or stopping"), layout.lock():
            pass
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with layout.lock():
            pass
    finally:
        child.kill()
        child.wait()


def test_everything_lies_below_the_folder(tmp_path: Path) -> None:
    """So that `rm -r` removes a cluster for good."""
    layout = Layout(tmp_path)
    for path in (layout.zookeeper, layout.broker(1), layout.log("broker-1")):
        assert path.is_relative_to(tmp_path)
