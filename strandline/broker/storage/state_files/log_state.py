"""Facts about a log that its segments do not hold: `log.json` in the partition's folder."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from strandline.broker.storage.state_files.checkpoint import (
    PARTIAL_SUFFIX,
    read_whole,
    write_atomically,
    write_new,
)
from strandline.ports import Files

STATE_FILE: Final = "log.json"
STAGED_FILE: Final = f"{STATE_FILE}.staged{PARTIAL_SUFFIX}"
"""Facts that are synced before they replace those in `log.json`."""


@dataclass(frozen=True, slots=True)
class LogState:
    """The stored facts about a log; each change replaces the file, synced."""

    log_start_offset: int = 0
    """Records below it are deleted, even where their segment still exists."""
    recovery_point: int = 0
    """Everything below it is synced. A log that ends below it has lost synced records (E15)."""
    corrupt: str | None = None
    """Why this replica must not lead; kept until a leader has made it whole."""
    clean_offset: int = 0
    """Compaction has covered the log up to here: below it each key has one record at most. Never above the
    recovery point."""
    tombstones_due_ms: int | None = None
    """When the first tombstone below the clean offset may be removed; None: there is none."""
    synced_only: bool = False
    """No record here counted before it was synced: the log is whole even after a loss of power (E3)."""
    absent_through: int | None = None
    """The last life of this broker that never had this log, as far as is known (E2)."""
    unsure_through: int | None = None
    """The last life of this broker whose records may be missing here (E2)."""

    def save(self, directory: Path, *, files: Files) -> None:
        """Raises OSError."""
        write_atomically(directory / STATE_FILE, self.to_bytes(), files=files)

    def to_bytes(self) -> bytes:
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self)}).encode()

    @classmethod
    def load(cls, directory: Path, *, files: Files) -> LogState | None:
        """None if there is no file. Raises ValueError if it is damaged, OSError."""
        try:
            data = read_whole(directory / STATE_FILE, files=files)
        except FileNotFoundError:
            return None
        try:
            raw = json.loads(data)
            corrupt = raw["corrupt"]
            return cls(
                int(raw["log_start_offset"]),
                int(raw["recovery_point"]),
                None if corrupt is None else str(corrupt),
                int(raw.get("clean_offset", 0)),
                _optional(raw.get("tombstones_due_ms")),
                bool(raw.get("synced_only", False)),
                _optional(raw.get("absent_through")),
                _optional(raw.get("unsure_through")),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{directory / STATE_FILE} is damaged ({error!r}): {data[:80]!r}") from None


def _optional(number: Any) -> int | None:
    return None if number is None else int(number)


class StateFile:
    """The facts in force. A caller that changes them holds the log's lock."""

    __slots__ = ("_directory", "_files", "_staged", "facts")

    def __init__(self, directory: Path, facts: LogState, files: Files) -> None:
        self.facts = facts
        """The facts as the file has them, or as its next change writes them."""
        self._directory = directory
        self._files = files
        self._staged: tuple[LogState, LogState] | None = None
        """The facts in force when the staged ones were made, and the staged ones."""

    def note(self, **facts: Any) -> None:
        """Put facts in force that the next change of any fact writes."""
        self.facts = replace(self.facts, **facts)

    def change(self, **facts: Any) -> None:
        """Replace some facts, synced, with every name in the folder. Raises OSError."""
        changed = replace(self.facts, **facts)
        changed.save(self._directory, files=self._files)
        self.facts = changed

    def stage(self, **facts: Any) -> None:
        """Write changed facts beside the file, unsynced. The caller syncs `STAGED_FILE`, and then calls
        `publish`. Raises OSError."""
        staged = replace(self.facts, **facts)
        write_new(self._directory / STAGED_FILE, staged.to_bytes(), files=self._files)
        self._staged = self.facts, staged

    def publish(self) -> bool:
        """Put the staged facts in force; the caller syncs the folder. False, with the staged facts dropped,
        if others have come into force since they were staged. Raises OSError."""
        assert self._staged is not None, "`stage` comes first"
        (before, staged), self._staged = self._staged, None
        if self.facts is not before:
            self._files.remove(self._directory / STAGED_FILE)
            return False
        self._files.rename(self._directory / STAGED_FILE, self._directory / STATE_FILE)
        self.facts = staged
        return True
