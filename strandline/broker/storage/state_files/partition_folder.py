"""A replica's folder: its name, and `partition.json`, which identifies the replica."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline.broker.storage.state_files.checkpoint import read_whole, write_atomically, write_new
from strandline.ids import PartitionId, PartitionKey, TopicId, TopicPartition
from strandline.ports import Files

DESCRIPTION: Final = "partition.json"
VERSION: Final = 2
"""1: the log may lack `log.json` although it has begun. 2: it has one once it has begun."""
DELETED_SUFFIX: Final = ".deleted"
"""The suffix of a folder that was moved aside to be removed."""

_TOPIC_LENGTH_MAX: Final = 180
"""The characters of a topic's name in a folder's name, which has 255 at most; `partition.json` has all."""


@dataclass(frozen=True, slots=True)
class Description:
    """The partition, the incarnation of its topic, and the topic's config as last known here."""

    name: TopicPartition
    key: PartitionKey
    config: Mapping[str, str]
    version: int = VERSION

    def save(self, folder: Path, *, files: Files, sync: bool = True) -> None:
        """Replaces the file. A folder without it belongs to no replica; without `sync` the caller syncs it
        before anything in the folder counts (`anchor_together`). Raises OSError."""
        write_atomically(folder / DESCRIPTION, self._to_bytes(), files=files, sync=sync)

    def save_new(self, folder: Path, *, files: Files) -> None:
        """As `save` without `sync`, into a folder that was just made: a kill that leaves a part of the file
        leaves nothing else there. Raises OSError."""
        write_new(folder / DESCRIPTION, self._to_bytes(), files=files)

    def _to_bytes(self) -> bytes:
        content = {
            "topic": self.name.topic,
            "partition": self.name.partition,
            "topic_id": self.key.topic_id,
            "config": dict(self.config),
            "version": VERSION,
        }
        return json.dumps(content).encode()

    @classmethod
    def load(cls, folder: Path, *, files: Files) -> Description:
        """Raises ValueError for a folder that does not identify its replica, OSError."""
        try:
            raw = json.loads(read_whole(folder / DESCRIPTION, files=files))
            name = TopicPartition(str(raw["topic"]), int(raw["partition"]))
            key = PartitionKey(TopicId(str(raw["topic_id"])), PartitionId(name.partition))
            config = {str(k): str(v) for k, v in raw["config"].items()}
            return cls(name, key, config, int(raw.get("version", 1)))
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{folder / DESCRIPTION} cannot be read: {error!r}") from error


def folder_name(name: TopicPartition, key: PartitionKey) -> str:
    """A readable name, different for each incarnation of a topic."""
    return f"{name.topic[:_TOPIC_LENGTH_MAX]}-{name.partition}-{key.topic_id}"
