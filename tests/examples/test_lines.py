"""The fields that the example reads from lines of logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.log_counts.lines import component_of, lines_in, user_of


@pytest.mark.parametrize(
    ("line", "user", "component"),
    [
        ("Jan 02 03:04:05 gate sshd[17]: Invalid user ada from 10.1.2.3", "ada", "sshd"),
        ("Jan 02 03:04:05 gate sshd[17]: Failed password for invalid user ada from 10.1.2.3", "ada", "sshd"),
        ("Jan 02 03:04:05 gate sshd[17]: Failed password for ada from 10.1.2.3 port 22 ssh2", "ada", "sshd"),
        ("Jan 02 03:04:05 gate sshd[17]: Received disconnect from 10.1.2.3: 11: Bye", "10.1.2.3", "sshd"),
        ("22/01/02 03:04:05 INFO storage.BlockManager: Found block rdd_1", "-", "storage.BlockManager"),
        (
            "2022-01-02 03:04:05,678 - WARN  [main:Peer[1]/10.1.2.3:Election@77] - late",
            "10.1.2.3",
            "Election",
        ),
        ("[Sun Jan 02 03:04:05 2022] [notice] worker_init() found a child", "-", "worker_init"),
        ("12::34::5", "user 12", "movie 34"),
        ("no log at all", "-", "-"),
        ("", "-", "-"),
    ],
)
def test_a_line_names_its_subject_and_its_writer(line: str, user: str, component: str) -> None:
    assert (user_of(line), component_of(line)) == (user, component)


def test_every_log_of_a_folder_is_read(tmp_path: Path) -> None:
    _ = (tmp_path / "b.log").write_text("three\n")
    _ = (tmp_path / "a.log").write_bytes(b"one\ntw\xff\n")
    _ = (tmp_path / "notes.txt").write_text("none of it\n")
    assert list(lines_in(tmp_path)) == ["one", "tw\N{REPLACEMENT CHARACTER}", "three"]


def test_a_folder_without_logs_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        _ = list(lines_in(tmp_path))


def test_without_a_folder_there_are_ratings() -> None:
    lines = list(lines_in(None))
    assert len(lines) > 1_000
    assert all(
        user_of(line).startswith("user ") and component_of(line).startswith("movie ") for line in lines
    )
