"""What the pages tell people to type does what they say (README.md, docs/clients.md)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def example(page: str, language: str, containing: str) -> str:
    """The one code block of a page in this language that contains these words."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if containing in block]
    return str(found)


def run(command: list[str], directory: Path) -> str:
    """Standard output of a command that succeeds."""
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    done = subprocess.run(
        command, cwd=directory, env=environment, text=True, capture_output=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("page", "containing", "printed"),
    [
        ("README.md", "high water", "b'high water 11:42'\n"),
        ("README.md", "low water", "b'low water 17:58'\n"),
        ("docs/clients.md", "asyncio.run", "0 b'world' b'hello'\n"),
    ],
)
def test_the_example_prints_its_record(page: str, containing: str, printed: str, tmp_path: Path) -> None:
    assert run([sys.executable, "-c", example(page, "python", containing)], tmp_path) == printed


def test_the_shell_example_reads_back_what_it_wrote(tmp_path: Path) -> None:
    script = example("README.md", "sh", "strandline up").replace("make setup && . .venv/bin/activate\n", "")
    try:
        printed = run(["bash", "-euo", "pipefail", "-c", script], tmp_path)
    finally:
        run(["strandline", "down"], tmp_path)
    assert "acked 100000, failed 0" in printed
