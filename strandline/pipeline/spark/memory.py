"""The default memory of a Spark that runs in one process.

Spark's own default is a gigabyte, for all cores and on any machine. This default is Java's own: a quarter of
the machine's memory, within bounds, because more is seldom used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from strandline.config.limits import MIB

LEAST_MIB: Final = 1_024
MOST_MIB: Final = 8_192
SHARE: Final = 4

SETTING: Final = "spark.driver.memory"
_CONFIGURED: Final = re.compile(r"^\s*spark\.driver\.memory[\s=:]", re.MULTILINE)
VARIABLE: Final = "SPARK_DRIVER_MEMORY"
LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""The memory limit of a container, in bytes; `max` means none."""


def driver_memory_mib(machine: int) -> int:
    """The memory for a machine with this number of bytes."""
    return min(max(machine // SHARE // MIB, LEAST_MIB), MOST_MIB)


def machine_bytes(limits: Sequence[Path] = LIMITS) -> int:
    """The most memory that this process may use: the machine's, or the container's limit."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in limits:
        with suppress(OSError, ValueError):  # no such file, or no number
            found.append(int(limit.read_text()))
    return min(found)


def is_configured(environment: Mapping[str, str]) -> bool:
    """Whether Spark's memory is configured elsewhere: in the environment, or in its defaults file."""
    if environment.get(VARIABLE):
        return True
    arguments = environment.get("PYSPARK_SUBMIT_ARGS", "")
    if "--driver-memory" in arguments or SETTING in arguments:
        return True
    home = Path(environment.get("SPARK_HOME", "."))
    defaults = Path(environment.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    with suppress(OSError):
        return re.search(_CONFIGURED, defaults.read_text()) is not None
    return False
