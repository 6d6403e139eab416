"""RocksDB as the stores of one process share it: one cache and one allowance of unwritten data for all.

A process may have a hundred tasks, and most of them are idle at any one moment. So what a store may use by
itself is small, and what all of them may use has a limit of its own.

There is no write-ahead log: what a crash loses of a store is in the changelog. A write batch lies in one
memtable, memtables become files whole and in order, and a file counts once the manifest names it. So what is
found after a crash is what a prefix of the batches made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Env,
    Options,
    Rdict,
    WriteBufferManager,
    WriteOptions,
)

from strandline.config import KIB, MIB

BLOCK_CACHE_BYTES: Final = 64 * MIB
"""Of all stores of the process, with their indexes and filters."""
UNWRITTEN_BYTES: Final = 64 * MIB
"""In all memtables of the process; a store that is written to past it brings its own to disk at once."""
MEMTABLE_BYTES: Final = 8 * MIB
"""Of one store; also the most that a crash loses of it, twice over while one is being written to disk."""
MEMTABLES_MAX: Final = 3
ARENA_BLOCK_BYTES: Final = 64 * KIB
"""What the first write takes of the memory: by default an eighth of a memtable, for each of the stores."""
OPEN_FILES_MAX: Final = 64
"""Of one store, which needs one for each 64 MiB of its state."""
MANIFEST_STEP_BYTES: Final = 64 * KIB
"""Taken on the disk ahead of use: by default 4 MiB a store."""
MANIFEST_BYTES_MAX: Final = 1 * MIB
"""Then another one is begun: by default after 1 GiB, all of which is read at open."""
INFO_LOG_BYTES_MAX: Final = 1 * MIB
"""Of RocksDB's own log, beside the database; the last one is kept."""
THREADS_WRITING: Final = 2
"""Of the process, that bring memtables to disk: with one, what a hundred busy stores have unwritten grows."""
THREADS_COMPACTING: Final = 2
BLOOM_BITS_PER_KEY: Final = 10
"""One in a hundred keys that are not there is looked for in a file."""


def _threads() -> Env:
    env = Env()
    env.set_high_priority_background_threads(THREADS_WRITING)
    env.set_low_priority_background_threads(THREADS_COMPACTING)
    return env


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all stores of the process have together."""

    threads: Env = field(default_factory=_threads)
    blocks: Cache = field(default_factory=lambda: Cache(BLOCK_CACHE_BYTES))
    unwritten: WriteBufferManager = field(default_factory=lambda: WriteBufferManager(UNWRITTEN_BYTES, False))


@cache
def _shared() -> _Shared:
    return _Shared()


def without_log() -> WriteOptions:
    """How every batch is written."""
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[assignment, method-assign]  # its types take it for a method
    return options


def open_database(folder: Path) -> Rdict:
    """The database of the folder, made if that is empty or missing. Raises what RocksDB raises, untyped."""
    fresh = not folder.exists() or not any(folder.iterdir())
    return Rdict(str(folder), _options(create=fresh))


def _options(*, create: bool) -> Options:
    shared = _shared()
    blocks = BlockBasedOptions()
    blocks.set_block_cache(shared.blocks)
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    blocks.set_bloom_filter(BLOOM_BITS_PER_KEY, False)
    options = Options(raw_mode=True)
    options.create_if_missing(create)
    options.set_env(shared.threads)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_manager(shared.unwritten)
    options.set_write_buffer_size(MEMTABLE_BYTES)
    options.set_max_write_buffer_number(MEMTABLES_MAX)
    options.set_arena_block_size(ARENA_BLOCK_BYTES)
    options.set_max_open_files(OPEN_FILES_MAX)
    options.set_manifest_preallocation_size(MANIFEST_STEP_BYTES)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_paranoid_checks(True)
    options.set_max_manifest_file_size(MANIFEST_BYTES_MAX)
    options.set_max_log_file_size(INFO_LOG_BYTES_MAX)
    options.set_keep_log_file_num(1)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options
