"""Compresses batches anew where a topic's `compression.type` names another codec than their producer's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from strandline.broker.replicas.manager import ReplicaManager
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Caller
from strandline.records import HEADER_BYTES, BatchHeader, Codec
from strandline.records.recompress import recompressed
from strandline.vocabulary.topic_config import GZIP_DEFAULT, LZ4_FAST, PRODUCERS_CODEC, TopicConfig

AT_ONCE_MAX: Final = 2
"""Batches that a broker compresses at the same time, in threads; others wait for their turn."""
_UNCOMPRESSED: Final = "uncompressed"


class Recompression:
    """Of one broker. Who appends a batch that is `wanted` awaits `of` first, and appends nothing of the same
    connection meanwhile: batches keep their order."""

    def __init__(
        self, manager: ReplicaManager, refusal: Callable[[str, Caller], StrandlineError | None]
    ) -> None:
        """`refusal`: why the caller may not write to the topic of this name."""
        self._manager = manager
        self._refusal = refusal
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)

    def wanted(self, name: TopicPartition, records: bytes | memoryview | None) -> bool:
        """Whether these are a batch of another codec than their topic's."""
        config = self._config(name)
        if config is None or records is None or len(records) < HEADER_BYTES:
            return False
        try:
            return BatchHeader.parse(records).codec is not _codec(config)
        except StrandlineError:  # of no codec that is known: refused when it is appended
            return False

    async def of(self, name: TopicPartition, records: bytes, caller: Caller) -> bytes | StrandlineError:
        """The batch in its topic's codec, or why it is refused. One that is not wanted any longer, and one
        that its caller may not write, are returned as they are."""
        config = self._config(name)
        if config is None or self._refusal(name.topic, caller) is not None:
            return records
        async with self._turns:
            try:
                return await self._manager.host.threads.run(
                    recompressed,
                    records,
                    _codec(config),
                    level=_level(config),
                    bytes_max=config.batch_bytes_max,
                )
            except StrandlineError as error:
                return error

    def _config(self, name: TopicPartition) -> TopicConfig | None:
        """That of a topic that names a codec, if this broker leads the partition."""
        replica = self._manager.find(name)
        if replica is None or replica.leadership is None:
            return None
        config = replica.config
        return None if config.compression_type == PRODUCERS_CODEC else config


def _codec(config: TopicConfig) -> Codec:
    return Codec.NONE if config.compression_type == _UNCOMPRESSED else Codec.named(config.compression_type)


def _level(config: TopicConfig) -> int | None:
    """At which batches of another codec are compressed; None: at the library's default."""
    match _codec(config):
        case Codec.GZIP if config.compression_gzip_level != GZIP_DEFAULT:
            return config.compression_gzip_level
        case Codec.LZ4 if config.compression_lz4_level != LZ4_FAST:
            return config.compression_lz4_level
        case Codec.ZSTD:
            return config.compression_zstd_level
        case _:
            return None
