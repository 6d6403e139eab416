"""How much memory a Spark that runs in one process may have, where nobody has said it.

Spark's own choice is a gigabyte, for all cores and whatever the machine. Here it is what Java takes by
itself, a quarter of what there is, within bounds: more is seldom used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from strandline.config import MIB

LEAST_MIB: Final = 1_024
MOST_MIB: Final = 8_192
SHARE: Final = 4

SETTING: Final = "spark.driver.memory"
_SAID: Final = re.compile(r"^\s*spark\.driver\.memory[\s=:]", re.MULTILINE)
VARIABLE: Final = "SPARK_DRIVER_MEMORY"
LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Of a container, in bytes; `max` is none."""


def driver_memory_mib(machine: int) -> int:
    """Of a machine with so many bytes."""
    return min(max(machine // SHARE // MIB, LEAST_MIB), MOST_MIB)


def machine_bytes(limits: Sequence[Path] = LIMITS) -> int:
    """What this process may use at most: the machine's memory, or less in a container."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in limits:
        with suppress(OSError, ValueError):  # no such file, no number
            found.append(int(limit.read_text()))
    return min(found)


def is_said(environment: Mapping[str, str]) -> bool:
    """Whether Spark is told elsewhere: in the environment, or in the file of its defaults."""
    if environment.get(VARIABLE):
        return True
    arguments = environment.get("PYSPARK_SUBMIT_ARGS", "")
    if "--driver-memory" in arguments or SETTING in arguments:
        return True
    home = Path(environment.get("SPARK_HOME", "."))
    defaults = Path(environment.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    with suppress(OSError):
        return re.search(_SAID, defaults.read_text()) is not None
    return False
