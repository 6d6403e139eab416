"""Reads Spark's record of an archive: the offsets of batches, and the files that they wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it ships none
from pyspark.sql import SparkSession

from strandline.errors import SettingsError
from strandline.pipeline.core.offsets import StreamOffset
from strandline.pipeline.core.options import READ_COMMITTED, READ_UNCOMMITTED
from strandline.pipeline.spark.messages import message_of

OFFSETS: Final = "_checkpoint/offsets"
COMMITS: Final = "_checkpoint/commits"
METADATA: Final = "_checkpoint/metadata"
LEVEL: Final = "_checkpoint/isolation"
"""Which isolation level the archive has; archives of earlier versions, of all records, lack it."""
SINK: Final = "_spark_metadata"
COMPACT: Final = ".compact"


def local_path(directory: str) -> Path | None:
    """The local path that a path or URL refers to; None for another file system."""
    if directory.startswith("file:/"):
        return Path("/" + directory.removeprefix("file:").lstrip("/")).resolve()
    return None if "://" in directory else Path(directory).resolve()


class Checkpoint:
    """The folders of an archive, on any file system that Spark knows."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._spark = spark
        self._directory = directory

    def check(self) -> None:
        """Raises SettingsError if a file that Spark goes on from is damaged: Spark's error has a trace, and
        not the file's name."""
        if self._exists(METADATA):
            self._parsed(METADATA, self._lines(METADATA) or [""])
        for folder in (OFFSETS, COMMITS):
            for number in sorted(self._batches(folder))[-2:]:
                self._log(f"{folder}/{number}", 3 if folder == OFFSETS else 2)

    def end(self) -> StreamOffset | None:
        """The offsets after the last finished batch; None if there is none.

        A batch is finished once the sink has its files, a moment before Spark records its commit. `since` is
        the begin of the first batch, while Spark keeps its offsets.

        Raises SettingsError if one of its folders is missing: without it the valid files, or their offsets,
        are unknown.
        """
        committed, written, kept = map(self._batches, (COMMITS, SINK, OFFSETS))
        done = max(committed | written, default=None)
        if done is None:
            return None
        if not written:
            raise self._incomplete(SINK, "the files that count are listed")
        if done not in kept:
            raise self._incomplete(OFFSETS, f"it is said how far batch {done} read")
        end = self._offsets(done)
        first = self._offsets(0) if 0 in kept else end
        return StreamOffset(end.offsets, end.ids, first.since)

    def begun(self) -> bool:
        """Whether any batch was begun."""
        return bool(self._batches(OFFSETS))

    def isolation(self) -> str | None:
        """The isolation level that `keep_isolation` wrote; None if it never did. Raises SettingsError if it
        is damaged."""
        if not self._exists(LEVEL):
            return None
        lines = self._lines(LEVEL)
        if len(lines) != 1 or lines[0] not in (READ_COMMITTED, READ_UNCOMMITTED):
            raise self._damaged(LEVEL, f"it has {lines!r}")
        return lines[0]

    def keep_isolation(self, level: str) -> None:
        """Writes the isolation level of the archive."""
        path = self._path(LEVEL)
        stream = path.getFileSystem(self._hadoop()).create(path, True)
        try:
            stream.write(bytearray(f"{level}\n".encode()))
        finally:
            stream.close()

    def _incomplete(self, folder: str, why: str) -> SettingsError:
        return SettingsError(
            f"{self._directory} is not whole: {folder} is missing, where {why}; put it back, or begin another"
        )

    def files(self) -> dict[str, int]:
        """The files of finished batches, in Spark's path format (`file:///…`, unescaped), each with its size
        in bytes.

        Raises SettingsError if a local archive is not where its files were written: all of its files would
        then be ignored.
        """
        listed = self._listed(SINK)
        names = {name for name, _ in listed}
        numbers = sorted(number for name, number in listed if not name.endswith(COMPACT))
        compacted = max((n for name, n in listed if name.endswith(COMPACT)), default=None)
        logs = [] if compacted is None else [f"{compacted}{COMPACT}"]
        logs += [str(number) for number in numbers if compacted is None or number > compacted]
        found: dict[str, int] = {}
        for log in logs:
            assert log in names, log
            for status in self._log(f"{SINK}/{log}"):
                if status["action"] == "add":
                    found[status["path"]] = status["size"]
                else:
                    found.pop(status["path"], None)
        files = {unquote(url): size for url, size in found.items()}
        self._check_place(files)
        return files

    def size(self, path: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""
        where = self._jvm().org.apache.hadoop.fs.Path(path)
        system = where.getFileSystem(self._hadoop())
        return int(system.getFileStatus(where).getLen()) if system.exists(where) else None

    def _check_place(self, files: Iterable[str]) -> None:
        here = local_path(self._directory)
        for path in files:
            where = local_path(path)
            if here is not None and (where is None or not where.is_relative_to(here)):
                raise SettingsError(
                    f"{self._directory} was moved: its list of files has {path}; move it back, or begin "
                    "another archive"
                )

    def _offsets(self, batch: int) -> StreamOffset:
        """The end of a batch: the file has the version, Spark's settings, then the source's offsets."""
        return StreamOffset.from_json(self._log(f"{OFFSETS}/{batch}", 3)[1])

    def _log(self, name: str, lines_min: int = 1) -> list[Any]:
        """What a log of a batch has after its version, line by line."""
        lines = self._lines(name)
        if len(lines) < lines_min or not lines[0].startswith("v"):
            raise self._damaged(name, "it is cut short")
        return self._parsed(name, lines[1:])

    def _parsed(self, name: str, lines: Iterable[str]) -> list[Any]:
        try:
            return [json.loads(line) for line in lines]
        except ValueError as error:
            raise self._damaged(name, str(error)) from None

    def _damaged(self, name: str, why: str) -> SettingsError:
        return SettingsError(
            f"{self._directory} is not whole: {name} is damaged ({why}); put it back from a copy, or begin "
            "another archive"
        )

    def _batches(self, folder: str) -> set[int]:
        return {number for _, number in self._listed(folder)}

    def _listed(self, folder: str) -> list[tuple[str, int]]:
        """The names of the logs in a folder, each with its batch."""
        if not self._exists(folder):
            return []
        path = self._path(folder)
        system = path.getFileSystem(self._hadoop())
        names = [str(status.getPath().getName()) for status in system.listStatus(path)]
        return [
            (name, int(name.removesuffix(COMPACT))) for name in names if name.removesuffix(COMPACT).isdigit()
        ]

    def _lines(self, name: str) -> list[str]:
        path = self._path(name)
        stream = path.getFileSystem(self._hadoop()).open(path)
        try:
            data = bytes(self._jvm().org.apache.commons.io.IOUtils.toByteArray(stream))
        except Py4JJavaError as error:  # its checksum is kept in another file
            raise self._damaged(name, message_of(error)) from error
        finally:
            stream.close()
        return [line for line in data.decode(errors="replace").splitlines() if line]

    def _exists(self, name: str) -> bool:
        path = self._path(name)
        return bool(path.getFileSystem(self._hadoop()).exists(path))

    def _path(self, name: str) -> Any:
        return self._jvm().org.apache.hadoop.fs.Path(f"{self._directory}/{name}")

    def _jvm(self) -> Any:
        return self._spark._jvm

    def _hadoop(self) -> Any:
        return self._spark._jsparkSession.sessionState().newHadoopConf()
