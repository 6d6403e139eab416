"""A plugin of pytest: skips the tests whose names fit a line of INTEROP_LEFT_OUT."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks them, before any fixture of theirs is made."""
    patterns = os.environ.get("INTEROP_LEFT_OUT", "").splitlines()
    for item in items:
        module, _, rest = item.nodeid.partition("::")
        name = f"{module.removesuffix('.py').replace('/', '.')}.{rest.replace('::', '.')}"
        if any(fnmatchcase(name, f"*{pattern}") for pattern in patterns):
            item.add_marker(pytest.mark.skip(reason="left out"))
