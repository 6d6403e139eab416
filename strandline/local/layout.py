"""A cluster's folder: its members, their ports and processes, and the paths of its files.

Everything is below one folder, so clusters can exist side by side and `rm -r` removes one
completely::

    cluster.json          members, ports, pids
    lock                  held by the process that starts or stops the cluster
    zookeeper/            configuration and data of ZooKeeper
    brokers/[id]/         a broker's logs
    tls/                  certificates and keys, if the cluster is secure
    client.toml           the settings of its admin's clients, if the cluster is secure
    zookeeper-auth        its identity for ZooKeeper, if the cluster is secure
    metrics-token         the token that a scrape shows, if the cluster is secure
    console-token         the token that a browser gives to its console, if the cluster is secure
    logs/[name].log       the output of each process
    logs/[name].audit     its audit log, if the cluster is secure
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from strandline.errors import SettingsError
from strandline.local.process import Process, ProcessId

_FILE: Final = "cluster.json"
_LOCK: Final = "lock"


class Locked(SettingsError):
    """Another process is starting or stopping the cluster of the folder."""


class MemberFile(BaseModel):
    """One process of the cluster; without `pid` it is stopped."""

    model_config = ConfigDict(extra="forbid")

    id: int
    port: int
    metrics_port: int | None = None
    """None: it serves no metrics; this holds for ZooKeeper, and for members of clusters made
    without metrics."""
    kafka_port: int | None = None
    """The port of a broker for Kafka clients, if it has one."""
    address: str | None = None
    """`host:port[/chroot]` of a ZooKeeper that the cluster neither starts nor stops; it has no port here."""
    rack: str = ""
    settings: dict[str, str] = Field(default_factory=dict)
    """The settings that differ from the defaults, as in the environment."""
    pid: int | None = None
    started: int | None = None

    @property
    def process_id(self) -> ProcessId | None:
        if self.pid is None or self.started is None:
            return None
        return ProcessId(self.pid, self.started)

    def note(self, process: Process | None) -> None:
        """Record its process; None: it is stopped."""
        self.pid = None if process is None else process.id.pid
        self.started = None if process is None else process.id.started


class ClusterFile(BaseModel):
    """`cluster.json`."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    zookeeper: MemberFile
    controllers: list[MemberFile]
    brokers: list[MemberFile]
    console: MemberFile | None = None
    """Its console, once it was asked for one."""
    secure: bool = False
    """True if every port is encrypted, and its clients show certificates."""

    def ports(self) -> Iterator[tuple[int, str]]:
        """The ports of the members, each with its use."""
        if self.zookeeper.address is None:
            yield self.zookeeper.port, "ZooKeeper"
        if self.console is not None:
            yield self.console.port, "the console"
        for kind, members in (("controller", self.controllers), ("broker", self.brokers)):
            for member in members:
                name = f"{kind} {member.id}"
                yield member.port, name
                if member.metrics_port is not None:
                    yield member.metrics_port, f"metrics of {name}"
                if member.kafka_port is not None:
                    yield member.kafka_port, f"Kafka clients of {name}"


class Layout:
    """Paths below one cluster's folder. Raises SettingsError if the path is not a folder."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        if self.directory.exists() and not self.directory.is_dir():
            raise SettingsError(
                f"{self.directory} is not a folder, and a cluster lives in one: move it away, or name another"
            )

    @property
    def zookeeper(self) -> Path:
        return self.directory / "zookeeper"

    @property
    def tls(self) -> Path:
        return self.directory / "tls"

    @property
    def client_file(self) -> Path:
        return self.directory / "client.toml"

    @property
    def zookeeper_auth(self) -> Path:
        return self.directory / "zookeeper-auth"

    @property
    def metrics_token(self) -> Path:
        return self.directory / "metrics-token"

    @property
    def console_token(self) -> Path:
        return self.directory / "console-token"

    def broker(self, broker_id: int) -> Path:
        return self.directory / "brokers" / str(broker_id)

    def log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"

    def audit_log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.audit"

    @property
    def holds_cluster(self) -> bool:
        return (self.directory / _FILE).exists()

    def read(self) -> ClusterFile:
        """Raises SettingsError if there is no cluster here, or one of another version."""
        path = self.directory / _FILE
        try:
            return ClusterFile.model_validate_json(path.read_text())
        except FileNotFoundError:
            raise SettingsError(
                f"there is no cluster in {self.directory}: `strandline up` makes one"
            ) from None
        except ValueError as error:  # includes pydantic's error, whose text is for programmers
            raise SettingsError(
                f"{path} is damaged, or not of this version: put a good copy back, "
                "or remove the folder with all its data and start anew with `strandline up`"
            ) from error

    def write(self, cluster: ClusterFile) -> None:
        """Replace the file atomically: another process may be reading it."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.directory / _FILE
        draft = path.with_name(f"{_FILE}.{os.getpid()}.new")
        write_private(draft, cluster.model_dump_json(indent=2, exclude_none=True) + "\n")
        os.replace(draft, path)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock for starting or stopping this cluster. Raises SettingsError if another
        process holds it.

        The kernel releases it when its holder dies. No child inherits it: a member that keeps
        running would keep the folder locked.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)  # not inheritable
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Locked(
                    f"another process is starting or stopping the cluster in {self.directory}: "
                    "try again when it is done"
                ) from None
            yield
        finally:
            os.close(descriptor)


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone may read."""
    with open(path, "w", encoding="utf-8", opener=_open_private) as file:
        file.write(text)


def write_secret_once(path: Path, text: str) -> None:
    """Write a file that its owner alone may read, unless it is there: others rely on what it says."""
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    write_private(draft, text)
    os.replace(draft, path)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
