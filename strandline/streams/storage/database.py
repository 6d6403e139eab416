"""RocksDB for the stores of one process: one block cache and one limit of unwritten data for all of them.

A process may have a hundred tasks, most of them idle at any moment. So the limits for a single store are
small, and all stores together have a limit of their own.

There is no write-ahead log: the changelog has what a crash loses. A write batch lies in one memtable,
memtables become files as a whole and in order, and a file counts once the manifest names it. So the state
after a crash is that of a prefix of the batches.
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

from strandline.config.limits import KIB, MIB

BLOCK_CACHE_BYTES: Final = 64 * MIB
"""For all stores of the process, with their indexes and filters."""
UNWRITTEN_BYTES: Final = 64 * MIB
"""In all memtables of the process; beyond it, a store that writes flushes its memtable at once."""
MEMTABLE_BYTES: Final = 8 * MIB
"""Memtable of one store. A crash loses at most this, or twice this while one is being flushed."""
MEMTABLES_MAX: Final = 3
ARENA_BLOCK_BYTES: Final = 64 * KIB
"""The memory that the first write allocates; RocksDB's default is an eighth of a memtable for each store."""
OPEN_FILES_MAX: Final = 64
"""For one store, which needs one for each 64 MiB of its state."""
MANIFEST_STEP_BYTES: Final = 64 * KIB
"""Preallocated on disk; RocksDB's default is 4 MiB for each store."""
MANIFEST_BYTES_MAX: Final = 1 * MIB
"""Then a new manifest begins; the default is 1 GiB, all of which is read at open."""
INFO_LOG_BYTES_MAX: Final = 1 * MIB
"""RocksDB's own log, beside the database; only the last one is kept."""
THREADS_WRITING: Final = 2
"""Threads of the process that flush memtables; with a single one the unwritten data of a hundred busy stores
grows."""
THREADS_COMPACTING: Final = 2
BLOOM_BITS_PER_KEY: Final = 10
"""One percent false positives: keys that are absent but looked up in a file."""


def _threads() -> Env:
    env = Env()
    env.set_high_priority_background_threads(THREADS_WRITING)
    env.set_low_priority_background_threads(THREADS_COMPACTING)
    return env


@dataclass(frozen=True, slots=True)
class _Shared:
    """The resources that all stores of the process share."""

    threads: Env = field(default_factory=_threads)
    blocks: Cache = field(default_factory=lambda: Cache(BLOCK_CACHE_BYTES))
    unwritten: WriteBufferManager = field(default_factory=lambda: WriteBufferManager(UNWRITTEN_BYTES, False))


@cache
def _shared() -> _Shared:
    return _Shared()


def without_log() -> WriteOptions:
    """The options of every write."""
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[assignment, method-assign]  # its stubs declare a method
    return options


def open_database(folder: Path) -> Rdict:
    """The database in the folder, created if that is empty or missing. Raises RocksDB's untyped errors."""
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
