"""Files that only their owner, or a group of its choice, may read."""

from __future__ import annotations

import stat
from pathlib import Path

from strandline.errors import SettingsError


def refuse_readable_by_others(setting: str, path: Path) -> None:
    """Raises SettingsError if the file is missing, or if every user of the machine may read it."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise SettingsError(f"setting {setting} = {str(path)!r}: {error.strerror}") from error
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise SettingsError(f"setting {setting} = {str(path)!r}: other users may read it: chmod 600 {path}")
