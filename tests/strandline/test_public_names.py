"""The public names of `strandline` and of its packages for applications."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import strandline
from strandline import pipeline, streams


def test_only_public_names_are_shown_and_each_is_there() -> None:
    shown = {name for name in dir(strandline) if not name.startswith("__")}
    assert shown == {*strandline.__all__, "errors"}
    for name in shown:
        assert getattr(strandline, name) is not None


@pytest.mark.parametrize("package", [streams, pipeline], ids=lambda package: package.__name__)
def test_each_public_name_of_a_package_is_there(package: ModuleType) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None


def test_the_classes_of_errors_are_found_without_a_further_import() -> None:
    found = "import strandline; print(strandline.errors.InvalidRequest.code.name)"
    done = subprocess.run([sys.executable, "-c", found], capture_output=True, text=True, check=True)
    assert done.stdout == "INVALID_REQUEST\n"
