"""Which Java runs Spark, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.errors import SettingsError
from strandline.pipeline.spark.java import MODULE, choose


def java(folder: Path, version: str, modules: str | None) -> Path:
    """The executable of a folder that looks like a Java."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text("#!/bin/sh\n")
    executable.chmod(0o755)
    said = "" if modules is None else f'MODULES="{modules}"\n'
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\n{said}')
    return executable


def test_the_first_that_is_young_and_whole_is_taken(tmp_path: Path) -> None:
    old = java(tmp_path / "old", "11.0.2", f"java.base {MODULE}")
    cut = java(tmp_path / "cut", "25.0.1", "java.base java.sql")
    whole = java(tmp_path / "whole", "17.0.15", f"java.base {MODULE} java.sql")
    assert choose([old, cut, whole]).home == tmp_path / "whole"


def test_a_java_that_does_not_name_its_version_is_trusted(tmp_path: Path) -> None:
    assert choose([java(tmp_path / "quiet", "21.0.1", None)]).version == 21


def test_without_any_the_error_says_what_is_wrong_with_each_and_how_to_get_one(tmp_path: Path) -> None:
    old = java(tmp_path / "old", "11.0.2", f"java.base {MODULE}")
    cut = java(tmp_path / "cut", "25.0.1", "java.base java.sql")
    with pytest.raises(
        SettingsError,
        match=r"whole Java 17 .*old/bin/java is 11; .*cut/bin/java lacks the module jdk\.incubator\.vector; "
        r".*none is not a Java\): install one .*JAVA_HOME",
    ):
        choose([old, cut, tmp_path / "none"])
    with pytest.raises(SettingsError, match="none was found: install one"):
        choose([])
