"""Where Spark runs: checked before Java starts, which would write a trace, or wait for a minute."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from strandline.errors import SettingsError

CONNECT_S_MAX: Final = 5.0

_COUNT: Final = r"\s*[1-9]\d*\s*"
_ADDRESS: Final = r"(\[[\da-fA-F:]+\]|[^\s,:\[\]]+):\d{1,5}"
_FORMS: Final = (
    rf"local(\[({_COUNT}|\s*\*\s*)(,{_COUNT})?\])?",
    rf"local-cluster\[{_COUNT},{_COUNT},{_COUNT}\]",
    rf"spark://{_ADDRESS}(,{_ADDRESS})*",
    r"k8s://\S+",
    "yarn",
)
_STANDALONE: Final = "spark://"
_YARN_FOLDERS: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


def check_master(master: str, environment: Mapping[str, str]) -> None:
    """Raises SettingsError for an address that Spark does not know, for a standalone master that does not
    listen, and for a YARN whose configuration is not known."""
    if not any(re.fullmatch(form, master) for form in _FORMS):
        raise SettingsError(
            f"master {master!r} is not one that Spark knows: give local[*], local[N], spark://host:port, "
            "k8s://address or yarn"
        )
    if master == "yarn" and not any(environment.get(name) for name in _YARN_FOLDERS):
        raise SettingsError(f"master 'yarn': set {' or '.join(_YARN_FOLDERS)} to the folder of its settings")
    if master.startswith(_STANDALONE):
        _check_listens(master)


def _check_listens(master: str) -> None:
    failures: list[str] = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            with closing(socket.create_connection((host.strip("[]"), int(port)), CONNECT_S_MAX)):
                return
        except (OSError, OverflowError) as error:
            failures.append(f"{address}: {error.strerror if isinstance(error, OSError) else error}")
    raise SettingsError(f"no Spark master listens at {master} ({'; '.join(failures)})")
