"""What `strandline` shows to whoever looks around in it."""

from __future__ import annotations

import subprocess
import sys

import strandline


def test_only_public_names_are_shown_and_each_is_there() -> None:
    shown = {name for name in dir(strandline) if not name.startswith("__")}
    assert shown == {*strandline.__all__, "errors"}
    for name in shown:
        assert getattr(strandline, name) is not None


def test_the_classes_of_errors_are_found_without_a_further_import() -> None:
    found = "import strandline; print(strandline.errors.InvalidRequest.code.name)"
    done = subprocess.run([sys.executable, "-c", found], capture_output=True, text=True, check=True)
    assert done.stdout == "INVALID_REQUEST\n"
