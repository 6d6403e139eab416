"""Copies of two states of the repository, each in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

LOCK = "requirements.lock"


class UnknownTree(Exception):
    """Git knows no such commit. The text is for the user."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A state of the repository: a name for the report, and git's id of its content."""

    name: str
    id: str


class Repository:
    """A working tree of git. Nothing here changes its files, its index or its branches."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def tree(self, revision: str) -> Tree:
        """A commit's. Raises UnknownTree."""
        try:
            found = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{tree}}")
            short = self._git("rev-parse", "--short", "--end-of-options", revision)
        except subprocess.CalledProcessError:
            raise UnknownTree(f"git knows no commit {revision!r}") from None
        return Tree(short if revision.startswith(short) else f"{revision} ({short})", found)

    def working_tree(self) -> Tree:
        """The files as they are: with what is not committed, and with new files that git does not ignore."""
        with tempfile.TemporaryDirectory(prefix="strandline-guard-") as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            self._git("read-tree", "HEAD", **index)
            self._git("add", "--all", **index)
            return Tree("the working tree", self._git("write-tree", **index))

    def unpack(self, tree: Tree, folder: Path) -> None:
        """Put its files there, with compiled bytecode: else the first run of each would take longer."""
        archive = self._output("archive", "--format=tar", tree.id)
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        compile_all = [sys.executable, "-m", "compileall", "-q", "-j", "0", "-x", "/tests/", "."]
        subprocess.run(compile_all, cwd=folder, check=True)

    def differing(self, old: Tree, new: Tree, paths: Sequence[str]) -> list[str]:
        """The files at or below these paths that are not the same in both."""
        return self._git("diff", "--name-only", old.id, new.id, "--", *paths).splitlines()

    def _git(self, *arguments: str, **environment: str) -> str:
        return self._output(*arguments, **environment).decode().strip()

    def _output(self, *arguments: str, **environment: str) -> bytes:
        command = ["git", "-C", str(self._folder), *arguments]
        return subprocess.run(
            command, env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True
        ).stdout
