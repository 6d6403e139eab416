"""A program that a signal ends differs from one that fails: only its action is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline_lab.chaos.containers.commands import (
    TRIES_MAX,
    CommandFailed,
    CommandKilled,
    again_if_killed,
    run,
)

CRASHES_UNTIL = """
echo >> "$0.tries"
[ "$(wc -l < "$0.tries")" -gt "$1" ] || kill -SEGV $$
exit "$2"
"""


class Program:
    """It crashes `crashes` times, and then ends with `status`."""

    def __init__(self, directory: Path, crashes: int, status: int = 0) -> None:
        self._script = directory / "script"
        self._script.write_text(CRASHES_UNTIL)
        self._asked = (str(crashes), str(status))

    @again_if_killed
    async def ask(self) -> str:
        return await run("sh", str(self._script), *self._asked)

    @property
    def tries(self) -> int:
        return len(self._script.with_name("script.tries").read_text().splitlines())


async def test_an_action_whose_program_crashed_is_done_again(tmp_path: Path) -> None:
    program = Program(tmp_path, crashes=TRIES_MAX - 1)
    assert await program.ask() == ""
    assert program.tries == TRIES_MAX


async def test_a_program_that_always_crashes_is_an_error(tmp_path: Path) -> None:
    program = Program(tmp_path, crashes=TRIES_MAX)
    with pytest.raises(CommandKilled, match="exit status -11"):
        await program.ask()
    assert program.tries == TRIES_MAX


async def test_a_program_that_fails_is_not_repeated(tmp_path: Path) -> None:
    program = Program(tmp_path, crashes=0, status=3)
    with pytest.raises(CommandFailed, match="exit status 3"):
        await program.ask()
    assert program.tries == 1
