"""Starts a Docker engine on machines that run none: dockerd with its own socket.

Images and the builder's cache stay in the user's cache folder, so only the first run on a machine is slow.
All else is removed when it stops: containers, networks, volumes, processes, and changes to the host's
network. If this process is killed, the kernel stops dockerd and its containers. The host's earlier network is
saved in a file, and the next engine started here restores it when it stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline.adapters.system.clock import SystemClock
from strandline_lab.chaos.containers import host_network
from strandline_lab.chaos.containers.commands import CommandFailed, run
from strandline_lab.chaos.containers.host_network import HostNetwork
from strandline_lab.chaos.world import WorldFailed

START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 60.0
POLL_S: Final = 0.1
IMAGES_KEPT: Final = "until=168h"
"""Images without a name (of older code, and stages of its builds) are kept for a week."""

_LOCK: Final = Path("/run/lock/strandline-dockerd")
"""The lock file of an engine of ours. Its content is the state of the machine before."""
_CGROUPS: Final = Path("/sys/fs/cgroup")
_KEY: Final = Path("/etc/docker/key.json")
_PLUGINS: Final = Path("/run/docker/plugins")

_HOME: Final = "strandline-dockerd-"

_CLOCK: Final = SystemClock()


def data_root() -> Path:
    """The folder where images stay between runs."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "strandline" / "docker"


@asynccontextmanager
async def dockerd() -> AsyncIterator[str]:
    """Runs an engine while the block runs. Yields its address (`unix:///…`). Raises WorldFailed."""
    async with AsyncExitStack() as stack:
        lock = stack.enter_context(_alone())
        if not _LOCK.read_text():  # else it has the state before a run that was killed
            before = _Before(await host_network.remember(), _folders(), _KEY.exists())
            _LOCK.write_text(before.dump())
        before = _Before.load(_LOCK.read_text())
        stack.push_async_callback(_restore, before)
        for left in Path(tempfile.gettempdir()).glob(f"{_HOME}*"):
            _remove(left)
        home = Path(tempfile.mkdtemp(prefix=_HOME))
        stack.callback(_remove, home)
        stack.callback(_leave_no_traces, before)
        address = f"unix://{home / 'docker.sock'}"
        process = await _start(home, address, lock)
        stack.push_async_callback(_stop, process)
        await _wait_answering(process, address, home / "dockerd.log")
        await _clear(address)
        await run("docker", "--host", address, "image", "prune", "--force", "--filter", IMAGES_KEPT)
        stack.push_async_callback(_clear, address)
        yield address


@contextmanager
def _alone() -> Iterator[int]:
    """Takes the lock, and yields its descriptor. Two engines would remove each other's firewall rules."""
    with _LOCK.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WorldFailed(
                "another run on this machine has started a Docker engine; wait until it has ended"
            ) from None
        yield lock.fileno()


@dataclass(frozen=True)
class _Before:
    """The state of the machine before the engine started."""

    network: HostNetwork
    folders: Collection[Path]
    had_key: bool

    def dump(self) -> str:
        folders = sorted(map(str, self.folders))
        return json.dumps(
            {"network": host_network.dump(self.network), "folders": folders, "key": self.had_key}
        )

    @staticmethod
    def load(text: str) -> _Before:
        said = json.loads(text)
        return _Before(host_network.load(said["network"]), set(map(Path, said["folders"])), said["key"])


async def _restore(before: _Before) -> None:
    await host_network.restore(before.network)
    os.truncate(_LOCK, 0)


async def _start(home: Path, address: str, lock: int) -> asyncio.subprocess.Process:
    """Starts dockerd. It inherits the lock, so an engine that outlives us keeps it. It has a process group of
    its own, so a signal for our group does not reach it: it stops after its containers."""
    data_root().mkdir(parents=True, exist_ok=True)
    with (home / "dockerd.log").open("wb") as log:
        return await asyncio.create_subprocess_exec(
            *("setpriv", "--pdeathsig", "TERM", "--"),
            *("dockerd", "--host", address, "--data-root", str(data_root())),
            *("--exec-root", str(home / "exec"), "--pidfile", str(home / "dockerd.pid")),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock,),
            start_new_session=True,
        )


async def _wait_answering(process: asyncio.subprocess.Process, address: str, log: Path) -> None:
    deadline = _CLOCK.monotonic() + START_S_MAX
    while True:
        with contextlib.suppress(CommandFailed):
            await run("docker", "--host", address, "version")
            return
        if process.returncode is not None or _CLOCK.monotonic() > deadline:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
            raise WorldFailed(f"dockerd was started here and does not answer; its output:\n{tail}")
        await _CLOCK.sleep(POLL_S)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_S_MAX):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
        print("dockerd did not stop and was killed; something of it may still run", file=sys.stderr)


async def _clear(address: str) -> None:
    """Removes containers, networks and volumes of this run, or of an earlier run that was killed."""
    docker = ("docker", "--host", address)
    containers = (await run(*docker, "ps", "--all", "--quiet")).split()
    if containers:
        await run(*docker, "rm", "--force", "--volumes", *containers)
    await run(*docker, "network", "prune", "--force")
    volumes = (await run(*docker, "volume", "ls", "--quiet")).split()
    if volumes:
        await run(*docker, "volume", "rm", "--force", *volumes)


# --- cleaning up ------------------------------------------------------------------------------------


def _folders() -> set[Path]:
    """The folders that an engine may make outside its own, control groups included."""
    return {
        folder
        for folder in (
            _KEY.parent,
            _PLUGINS,
            _PLUGINS.parent,
            *_CGROUPS.glob("docker"),
            *_CGROUPS.glob("*/docker"),
        )
        if folder.is_dir()
    }


def _leave_no_traces(before: _Before) -> None:
    if not before.had_key:
        _KEY.unlink(missing_ok=True)
    for folder in sorted(_folders().difference(before.folders), reverse=True):
        with contextlib.suppress(OSError):  # it is not empty, so another program uses it by now
            folder.rmdir()


def _remove(home: Path) -> None:
    """Removes the engine's folder. First unmounts what is still mounted below it: old network namespaces."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if (point := line.split()[1]).startswith(str(home)):
            subprocess.run(["umount", "--lazy", point], check=False)
    shutil.rmtree(home, ignore_errors=True)
