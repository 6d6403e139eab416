"""Files have descriptors though connections took all that there are."""

from __future__ import annotations

import errno
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strandline.adapters.system.files import SystemFiles


@contextmanager
def none_left() -> Iterator[None]:
    """Opens every descriptor that this process could still open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, hard))
    taken: list[int] = []
    try:
        while True:
            try:
                taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError as error:
                assert error.errno == errno.EMFILE
                break
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_files_are_opened_from_the_reserve_and_fill_it_again(tmp_path: Path) -> None:
    files = SystemFiles()
    files.reserve.keep(2)
    with none_left():
        for _ in range(5):  # each gives back what it took
            descriptor = files.open(tmp_path / "a", create=True)
            files.append(descriptor, (b"x",))
            files.sync(descriptor)
            files.close(descriptor)
            files.sync_directory(tmp_path)
            assert files.sizes(tmp_path)["a"] > 0
        held = [files.open(tmp_path / "a") for _ in range(2)]
        with pytest.raises(OSError, match="Too many open files"):
            files.open(tmp_path / "a")
        for descriptor in held:
            files.close(descriptor)
        files.close(files.open(tmp_path / "a"))
    files.reserve.keep(0)
    while files.reserve.lend():
        pass


SERVER = """
import asyncio, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
import grpc
from strandline.adapters.system.descriptors import connection_options, connections_max

async def main():
    server = grpc.aio.server(options=connection_options(1))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, connections_max(1), flush=True)
    await server.wait_for_termination()

asyncio.run(main())
"""


def test_connections_are_bounded_by_the_limit_of_descriptors() -> None:
    """Connections beyond the limit are closed, the ones before them continue, and descriptors are left."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port, bound = map(int, process.stdout.readline().split())
            assert bound == (200 - 64) // 2
            opened = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(bound + 40)]
            closed = 0
            for each in opened:
                each.settimeout(30)
                try:
                    closed += each.recv(1) == b""  # an HTTP/2 server speaks first
                except ConnectionResetError:
                    closed += 1
            assert 40 <= closed <= 45
            assert len(os.listdir(f"/proc/{process.pid}/fd")) < 200 - 64
            for each in opened:
                each.close()
        finally:
            process.kill()
