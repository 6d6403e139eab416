"""Files that only their owner, or a group of its choice, may read."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

from strandline.errors import SettingsError

OTHERS: Final = 0o007
"""The bits of a file's mode for users that are neither its owner nor in its group."""


def refuse_readable_by_others(what: str, path: Path) -> None:
    """Raises SettingsError if the file is missing, or if every user of the machine may read it.

    `what`: stands before the path in the error, such as `setting zookeeper_auth_file =`.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise SettingsError(f"{what} {str(path)!r}: {error.strerror}") from error
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise SettingsError(f"{what} {str(path)!r}: other users may read it: chmod 600 {path}")
