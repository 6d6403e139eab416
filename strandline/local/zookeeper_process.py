"""A real ZooKeeper server from the jars in PySpark's wheel; only Java must be installed."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
import shutil
import signal
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from strandline.adapters.system.java import Java
from strandline.adapters.zookeeper.connection.tls import HANDSHAKE_S_MAX
from strandline.errors import SettingsError
from strandline.local.java import find_java
from strandline.local.ports import LOOPBACK, answer_of
from strandline.local.process import Process, ProcessId
from strandline.local.zookeeper_tls import TLS_JARS, ServerTls

TICK_MS: Final = 250
"""The smallest session timeout is two ticks, which is also the least that the settings allow."""

SESSION_TIMEOUT_MS_MAX: Final = 120_000
"""The largest that the settings allow; ZooKeeper's own limit would be 20 ticks."""

HEAP_MB: Final = 512
"""The largest heap; the server takes what it needs. 64 MB held 50,000 znodes, and a cluster of
3,000 partitions has 15,000; 128 MB were not enough for all topics of a test run in sequence."""

SERVING_POLL_S: Final = 0.01
ANSWER_S_MAX: Final = 0.5
"""A server that is just starting may accept, fail on the command, and leave the caller waiting."""

STOP_S_MAX: Final = 10.0
_JARS: Final = (
    "zookeeper-3.*", "zookeeper-jute-*", "slf4j-api-*", "log4j-api-*", "log4j-core-*", "log4j-slf4j2-impl-*",
    "metrics-core-*", "snappy-java-*",
)  # fmt: skip
"""The smallest set that the server runs with. TLS needs more, with which it takes seconds to start."""

_CONFIGURATION: Final = """\
tickTime={tick_ms}
dataDir={data}
{ports}
maxSessionTimeout={session_timeout_ms_max}
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr,ruok
autopurge.purgeInterval=1
autopurge.snapRetainCount=3
"""

_LOGGING: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
"""


class ZooKeeperProcess:
    """One server in `directory`, on `port` of the loopback address; `more` is appended to its
    configuration. With `tls` the port speaks TLS only.

    The first server on a machine that is stopped cleanly leaves an archive of its loaded classes in
    the user's cache folder; with it, later ones start in about half the time.
    """

    def __init__(
        self,
        directory: Path,
        port: int,
        *,
        log_path: Path,
        detached: bool = False,
        tls: ServerTls | None = None,
        more: str = "",
    ) -> None:
        self.directory = directory
        self.port = port
        self.log_path = log_path
        self.process: Process | None = None
        self._detached = detached
        self._tls = tls
        self._more = more

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.alive

    def find(self, wanted: ProcessId) -> bool:
        """Find the server that was started as `wanted`, if it is still running."""
        self.process = Process.find("zookeeper", wanted, log_path=self.log_path)
        return self.process is not None

    def start(self) -> Process:
        """Start the server; `wait_serving` waits until it answers. Raises SettingsError."""
        java, jars = find_java(), find_jars(_JARS if self._tls is None else (*_JARS, *TLS_JARS))
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        configuration = self.directory / "zoo.cfg"
        configuration.write_text(
            _CONFIGURATION.format(
                tick_ms=TICK_MS,
                data=self.directory / "data",
                ports=plaintext_port(self.port) if self._tls is None else self._tls.configuration(self.port),
                session_timeout_ms_max=SESSION_TIMEOUT_MS_MAX,
            )
            + self._more
        )
        logging = self.directory / "log4j2.properties"
        logging.write_text(_LOGGING)
        command = [
            str(java.executable),
            *self._archive_options(java, jars),
            f"-Dlog4j2.configurationFile={logging.as_uri()}",
            f"-Xmx{HEAP_MB}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dzookeeper.preAllocSize=1024",
            "-cp",
            ":".join(map(str, jars)),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(configuration),
        ]
        self.process = Process.spawn(
            "zookeeper", command, log_path=self.log_path, environment=os.environ, detached=self._detached
        )
        return self.process

    async def wait_serving(self, timeout_s: float) -> None:
        """Return once it answers. Raises ProcessFailed if it dies or `timeout_s` passes."""
        assert self.process is not None, "start it first"
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    serves = await self.serves()
                    if not self.process.alive:
                        raise self.process.failure("died before it served")
                    if serves:
                        return
                    await asyncio.sleep(SERVING_POLL_S)
        except TimeoutError:
            raise self.process.failure(f"does not serve after {timeout_s:g} s") from None

    async def serves(self) -> bool:
        """True if this server accepts sessions; another one on its port does not count."""
        context = None if self._tls is None else self._tls.client_context()
        answer = await four_letter_word(self.port, "srvr", context)
        return "Mode: " in answer and self.process is not None and self.process.listens(self.port)

    async def stop(self) -> None:
        """Stop the server by SIGTERM, and keep its class archive if it wrote one."""
        if self.process is not None:
            await self.process.stop(clean=True, timeout_s=STOP_S_MAX)
            self.process = None
            self._keep_archive()

    async def kill(self) -> None:
        """SIGKILL, and wait until it has exited."""
        if self.process is not None:
            await self.process.stop(clean=False, timeout_s=STOP_S_MAX)
            self.process = None

    async def discard(self) -> None:
        """Stop it as fast as possible: its data is no longer needed, but its class archive may be."""
        await (self.kill() if self._new_archive is None else self.stop())

    def pause(self) -> None:
        """Suspend it, like a machine that swaps: it answers nothing and closes nothing."""
        if self.process is not None:
            self.process.send(signal.SIGSTOP)

    def resume(self) -> None:
        if self.process is not None:
            self.process.send(signal.SIGCONT)

    # --- the archive of loaded classes ---------------------------------------------------------

    @property
    def _new_archive(self) -> Path | None:
        """The path to which this server writes its classes at its end, if it was asked to."""
        target = self.directory / "archive-target"
        return self.directory / "classes.jsa" if target.exists() else None

    def _archive_options(self, java: Java, jars: list[Path]) -> list[str]:
        if not java.can_archive_classes:
            return []
        cached = _archive_path(java, jars)
        target = self.directory / "archive-target"
        target.unlink(missing_ok=True)
        if cached.exists():
            return [f"-XX:SharedArchiveFile={cached}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        target.write_text(str(cached))
        return [f"-XX:ArchiveClassesAtExit={self.directory / 'classes.jsa'}", "-Xlog:cds=off"]

    def _keep_archive(self) -> None:
        made = self._new_archive
        if made is None:
            return
        target = self.directory / "archive-target"
        cached = Path(target.read_text())
        target.unlink()
        if made.exists():
            cached.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=cached.parent, delete=False) as copy:
                shutil.copyfile(made, copy.name)
            os.replace(copy.name, cached)  # atomic: another cluster may be starting from it
            made.unlink()


class RunningZooKeeper:
    """A server that the cluster did not start, so that it neither harms nor stops it.

    Its methods are those of ZooKeeperProcess; all that would harm it raise SettingsError.
    """

    process: Process | None = None
    alive = True

    def __init__(self, address: str) -> None:
        """`address` is `host:port[/chroot]`."""
        self.address = address

    def start(self) -> Process:
        raise self._refusal()

    def pause(self) -> None:
        raise self._refusal()

    def resume(self) -> None:
        raise self._refusal()

    async def kill(self) -> None:
        raise self._refusal()

    def _refusal(self) -> SettingsError:
        return SettingsError(f"the cluster did not start the ZooKeeper at {self.address}")

    async def wait_serving(self, timeout_s: float) -> None:
        """Return at once: the members wait for it themselves."""

    async def stop(self) -> None:
        """Leave it running."""

    async def discard(self) -> None:
        """Leave it running."""


def find_jars(patterns: Sequence[str] = _JARS) -> list[Path]:
    """The server's class path. Raises SettingsError that says how to get it."""
    spec = importlib.util.find_spec("pyspark")  # not imported, because that takes a second
    if spec is None or not spec.submodule_search_locations:
        raise SettingsError(
            "a local cluster takes ZooKeeper from PySpark's wheel: pip install 'strandline[local]', "
            "or run ZooKeeper yourself and set STRANDLINE_ZOOKEEPER"
        )
    folder = Path(spec.submodule_search_locations[0]) / "jars"
    jars: list[Path] = []
    for pattern in patterns:
        found = sorted(folder.glob(f"{pattern}.jar"))
        if not found:
            raise SettingsError(f"{folder} holds no {pattern}.jar: install pyspark 4.2 or later")
        jars.append(found[-1])
    return jars


def plaintext_port(port: int) -> str:
    """The lines of the configuration for a port without TLS."""
    return f"clientPort={port}\nclientPortAddress={LOOPBACK}"


async def four_letter_word(port: int, word: str, context: ssl.SSLContext | None = None) -> str:
    """The answer to one of ZooKeeper's four-letter commands; empty without an answer. `context`: of a port
    with TLS."""
    handshake_s_max = 0.0 if context is None else HANDSHAKE_S_MAX
    return (await answer_of(port, word.encode(), handshake_s_max + ANSWER_S_MAX, context)).decode()


def _archive_path(java: Java, jars: list[Path]) -> Path:
    """The path of the archive for this Java and these jars; any change to them changes the name."""
    named = [java.executable, *jars]
    facts = [f"{path} {stat.st_size} {stat.st_mtime_ns}" for path in named for stat in (path.stat(),)]
    key = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "strandline" / f"zookeeper-{key}.jsa"
