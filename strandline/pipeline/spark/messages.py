"""The message of one of Spark's errors, which have a trace of Java in their text."""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships none
from pyspark.errors import PySparkException

_OURS: Final = re.compile(r"^\s*strandline(?:\.pipeline)?\.errors\.(?:\w+\.)*(\w+): (.+)$", re.MULTILINE)
"""The last line of a traceback of the source, within Spark's message."""
_BRIDGE: Final = re.compile(r"^An error occurred while calling \S+$|^: (?:[\w.$]+: )?")
"""What the bridge to Java puts before the message."""


def message_of(error: PySparkException | Py4JError) -> str:
    """In one line: that of the source if there is one, else the first line of Spark's."""
    text = str(error)
    found = _OURS.findall(text)
    if found:
        return str(found[-1][1]).strip()
    lines = [_BRIDGE.sub("", line.strip()) for line in text.splitlines()]
    return next((line for line in lines if line), type(error).__name__)
