"""Machines and processes: what a kill, a signal, a loss of power and a defect leave."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.errors import StrandlineError
from strandline.host import ServiceHost
from strandline.ports import Files
from strandline.simulation.engine.world import World

FILE = Path("/data/file")


@pytest.fixture
def world() -> Iterator[World]:
    with World(5) as world:
        yield world


def write(files: Files, data: bytes, *, sync: bool) -> None:
    descriptor = files.open(FILE, create=True)
    files.append(descriptor, [data])
    if sync:
        files.sync(descriptor)
        files.sync_directory(FILE.parent)


def read(files: Files) -> bytes:
    return files.read(files.open(FILE), 1000, 0)


def test_a_killed_process_leaves_what_it_wrote_and_changes_nothing_more(world: World) -> None:
    machine = world.new_machine()
    first = world.new_process("first", machine)
    ran: list[str] = []

    async def serve(host: ServiceHost) -> None:
        try:
            write(host.files, b"written", sync=False)
            first.die()
        finally:
            ran.append("finally")  # the stack of the step in which it dies unwinds
            write(host.files, b" too late", sync=True)

    async def work() -> None:
        first.start(serve)
        await first.ended

    world.run(work())
    assert ran == ["finally"]
    assert first.defect is None
    second = world.new_process("second", machine)
    assert read(second.host.files) == b"written"


def test_power_takes_what_was_not_synced(world: World) -> None:
    machine = world.new_machine()
    lengths = set()
    for number in range(20):
        process = world.new_process(f"p{number}", machine)
        with_synced = number == 0
        write(process.host.files, b"synced" if with_synced else b"torn", sync=with_synced)
        before = process.host.files.boot_id(Path("/boot"))
        world.lose_power(machine)
        world.return_power(machine)
        after = world.new_process("after", machine)
        lengths.add(len(read(after.host.files)))
        assert after.host.files.boot_id(Path("/boot")) != before
        assert after.host.clock.monotonic() < 1
        assert read(after.host.files).startswith(b"synced")
        after.kill()
    assert len(lengths) > 5


def test_power_may_leave_holes_in_what_was_not_synced(world: World) -> None:
    machine = world.new_machine()
    seen = set()
    for _ in range(40):
        process = world.new_process("p", machine)
        write(process.host.files, b"s" * 512, sync=True)
        process.host.files.append(process.host.files.open(FILE), [b"n" * 2_048])
        world.lose_power(machine)
        world.return_power(machine)
        after = world.new_process("after", machine)
        found = machine.disk.files.content(FILE)
        assert found.startswith(b"s" * 512)
        sectors = [found[at : at + 512].strip(b"\0") != b"" for at in range(512, len(found), 512)]
        seen.add(tuple(sectors))
        after.host.files.remove(FILE)
        after.kill()
    assert any(False in sectors and True in sectors for sectors in seen), seen
    assert (True,) * 4 in seen


def test_a_full_disk_and_a_bad_one_refuse(world: World) -> None:
    machine = world.new_machine()
    process = world.new_process("p", machine)
    write(process.host.files, b"before", sync=True)
    descriptor = process.host.files.open(FILE)
    machine.disk.full = True
    for _ in range(20):
        try:
            assert process.host.files.append(descriptor, [b"more"]) <= 4
        except OSError as error:
            assert error.errno == errno.ENOSPC
            break
    else:
        pytest.fail("the disk was never full")
    machine.disk.full = False
    machine.disk.error_rate = 1.0
    with pytest.raises(OSError, match="input/output"):
        process.host.files.sync(descriptor)


def test_a_signal_asks_and_the_process_ends_when_it_returns(world: World) -> None:
    process = world.new_process("p", world.new_machine())

    async def serve(host: ServiceHost) -> None:
        await host.stop_requested.wait()
        await host.clock.sleep(1.0)

    async def work() -> float:
        process.start(serve)
        await asyncio.sleep(5)
        process.sigterm()
        await process.ended
        return world.loop.time()

    assert world.run(work()) == pytest.approx(6, abs=0.01)
    assert process.defect is None


def test_a_defect_ends_the_process_and_is_kept(world: World) -> None:
    process = world.new_process("p", world.new_machine())
    withdrawn: list[str] = []

    async def serve(host: ServiceHost) -> None:
        loop = asyncio.get_running_loop()
        host.fail_fast(lambda: withdrawn.append("withdrawn")).install(loop)
        loop.call_soon(refuse)  # an expected error of a callback is only logged
        loop.call_later(1.0, int, "no number")
        await asyncio.Event().wait()

    def refuse() -> None:
        raise StrandlineError("expected")

    async def work() -> None:
        process.start(serve)
        await process.ended

    world.run(work())
    assert isinstance(process.defect, ValueError)
    assert withdrawn == ["withdrawn"]
    [defect] = world.defects
    assert defect.startswith("p: Exception in callback")


def test_clocks_differ_and_jump(world: World) -> None:
    one, two = world.new_machine(), world.new_machine()
    clock = world.new_process("one", one).host.clock
    other = world.new_process("two", two).host.clock
    assert clock.monotonic() != other.monotonic()
    assert abs(clock.wall_ms() - other.wall_ms()) <= 1000
    before, monotonic = clock.wall_ms(), clock.monotonic()
    one.clock.jump(-60_000)
    assert clock.wall_ms() == before - 60_000
    assert clock.monotonic() == monotonic
