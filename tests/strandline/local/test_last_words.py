"""What an error says of a process: one line of its log, in words."""

from __future__ import annotations

import json

import pytest

from strandline.local.last_words import WORDS_CHARS_MAX, last_words

WAITS = {"zookeeper": "127.0.0.1:1", "seconds": 20.1, "event": "waiting for ZooKeeper", "level": "warning"}
JAVA = [
    "2026-11-26T06:27:08,567 ERROR ZooKeeperServerMain Unexpected exception, exiting abnormally",
    "java.net.BindException: Address already in use",
    "\tat java.base/sun.nio.ch.Net.bind0(Native Method)",
    "2026-11-26T06:27:08,574 ERROR ServiceUtils Exiting JVM with code 1",
    "",
]
PYTHON = ["Traceback (most recent call last):", '  File "x.py", line 1', "ValueError: no such thing", ""]


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ([], ""),
        (["\n", "  \n"], ""),
        ([json.dumps(WAITS)], "waiting for ZooKeeper (zookeeper 127.0.0.1:1, seconds 20.1)"),
        ([json.dumps(WAITS), '{"event": "serving", "level": "info", "timestamp": "now"}'], "serving"),
        (JAVA, "java.net.BindException: Address already in use"),
        (PYTHON, "ValueError: no such thing"),
        (["broker: setting port = 1: cannot listen\n"], "broker: setting port = 1: cannot listen"),
        (['{"not": "an event"}', "[1]"], "[1]"),
    ],
)
def test_the_last_line_that_tells_something_is_put_in_words(log: list[str], words: str) -> None:
    assert last_words(log) == words


def test_a_traceback_as_json_does_not_fill_the_screen() -> None:
    """An event carries the frames of its exception, thousands of characters."""
    crash = {"event": "defect", "error": "x", "exception": [{"frames": ["f"] * 1000}]}
    assert last_words([json.dumps(crash)]) == "defect (error x)"
    long = last_words([json.dumps({"event": "e" * 1000})])
    assert len(long) == WORDS_CHARS_MAX and long.endswith("…")
