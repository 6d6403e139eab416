"""Streams of bytes between simulated processes: in order, in any pieces, with pauses, cuts and ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial

import pytest

from strandline.errors import SettingsError
from strandline.host import Arrival, BytesServer
from strandline.simulation.engine.byte_streams import HIGH_WATER_BYTES, SOCKET_BYTES, ByteStream
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.simulation.engine.world import World

PORT = 9093


class Seen(asyncio.BufferedProtocol):
    """Keeps everything that it gets."""

    def __init__(self) -> None:
        self.stream: asyncio.Transport
        self.bytes = b""
        self.pieces = 0
        self.lost: list[Exception | None] = []
        self.ended = False
        self.paused = 0
        self.resumed = 0
        self._buffer = bytearray(1_000)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.stream = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        self._buffer += b" "  # it is its own again
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes += self._buffer[:nbytes]
        self.pieces += 1

    def eof_received(self) -> bool:
        self.ended = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.paused += 1

    def resume_writing(self) -> None:
        self.resumed += 1


class Peers:
    """A server with its connections, and a client."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.served: list[Seen] = []
        self.server = world.new_process("server", world.new_machine())
        self.client = world.new_process("client", world.new_machine())
        self.address = f"{self.server.machine.host}:{PORT}"
        self.bound: BytesServer

    def _accept(self) -> Seen:
        self.served.append(Seen())
        return self.served[-1]

    async def listen(self) -> None:
        listen_bytes = self.server.host.listen_bytes
        assert listen_bytes is not None
        self.bound = listen_bytes("kafka_port", self.server.machine.host, PORT)
        async with asyncio.TaskGroup() as tasks:
            await self.bound.serve(self._accept, tasks, lambda _: Arrival(nullcontext()))

    async def connect(self) -> tuple[Seen, ByteStream]:
        seen = Seen()
        return seen, await self.client.connect_bytes(self.address, seen)


def play(work: Callable[[Peers], Awaitable[None]], seed: int = 1) -> None:
    with World(seed) as world:
        peers = Peers(world)

        async def main() -> None:
            await peers.server.run(peers.listen())
            await work(peers)

        world.run(main())


def run_in(process: SimulatedProcess, work: Callable[[], object]) -> Awaitable[object]:
    async def doing() -> object:
        return work()

    return process.run(doing())


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_order_and_in_other_pieces_than_they_were_written(seed: int) -> None:
    """CORRECTNESS N1."""

    async def work(peers: Peers) -> None:
        _, stream = await peers.client.run(peers.connect())
        sent = [bytes([number]) * (number * 7) for number in range(1, 50)]
        for piece in sent:
            await run_in(peers.client, partial(stream.write, piece))
        await asyncio.sleep(1)
        assert peers.served[0].bytes == b"".join(sent)
        assert peers.served[0].pieces > len(sent)

    play(work, seed)


def test_a_writer_is_paused_while_the_reader_does_not_read() -> None:
    async def work(peers: Peers) -> None:
        seen, stream = await peers.client.run(peers.connect())
        await asyncio.sleep(0.1)
        served = peers.served[0]
        await run_in(peers.server, served.stream.pause_reading)
        data = b"x" * (SOCKET_BYTES + HIGH_WATER_BYTES + 1)
        await run_in(peers.client, lambda: stream.write(data))
        await asyncio.sleep(1)
        assert (served.bytes, seen.paused, seen.resumed) == (b"", 1, 0)
        assert stream.get_write_buffer_size() == HIGH_WATER_BYTES + 1
        await run_in(peers.server, served.stream.resume_reading)
        await asyncio.sleep(1)
        assert (served.bytes, seen.resumed) == (data, 1)

    play(work)


def test_a_close_comes_after_all_bytes_and_an_abort_may_come_before() -> None:
    async def work(peers: Peers) -> None:
        seen, stream = await peers.client.run(peers.connect())
        data = b"y" * (3 * SOCKET_BYTES)
        await run_in(peers.client, partial(stream.write, data))
        await run_in(peers.client, stream.close)
        await asyncio.sleep(1)
        served = peers.served[0]
        assert (served.bytes, served.ended, served.lost, seen.lost) == (data, True, [None], [None])
        seen, stream = await peers.client.run(peers.connect())
        await asyncio.sleep(0.1)
        await run_in(peers.client, stream.abort)
        await asyncio.sleep(1)
        assert isinstance(peers.served[1].lost[0], ConnectionResetError)
        assert not peers.served[1].ended

    play(work)


def test_a_killed_process_resets_its_connections_and_refuses_new_ones() -> None:
    async def work(peers: Peers) -> None:
        seen, _ = await peers.client.run(peers.connect())
        peers.server.kill()
        await asyncio.sleep(1)
        assert isinstance(seen.lost[0], ConnectionResetError)
        with pytest.raises(ConnectionRefusedError):
            await peers.client.run(peers.connect())

    play(work)


def test_bytes_that_meet_a_cut_arrive_after_it() -> None:
    async def work(peers: Peers) -> None:
        seen, stream = await peers.client.run(peers.connect())
        hosts = peers.client.machine.host, peers.server.machine.host
        peers.world.network.cut(*hosts)
        await run_in(peers.client, lambda: stream.write(b"late"))
        await asyncio.sleep(10)
        assert (peers.served[0].bytes, seen.lost) == (b"", [])
        peers.world.network.heal(*hosts)
        await asyncio.sleep(1)
        assert peers.served[0].bytes == b"late"

    play(work)


def test_after_a_loss_of_power_the_peer_hears_nothing_until_the_machine_is_back() -> None:
    async def work(peers: Peers) -> None:
        seen, _ = await peers.client.run(peers.connect())
        peers.world.lose_power(peers.server.machine)
        await asyncio.sleep(10)
        assert seen.lost == []
        peers.world.return_power(peers.server.machine)
        await asyncio.sleep(5)
        assert isinstance(seen.lost[0], ConnectionResetError)

    play(work)


def test_a_paused_process_reads_later_what_came() -> None:
    async def work(peers: Peers) -> None:
        _, stream = await peers.client.run(peers.connect())
        await asyncio.sleep(0.1)
        peers.server.pause()
        await run_in(peers.client, lambda: stream.write(b"wait"))
        await asyncio.sleep(5)
        assert peers.served[0].bytes == b""
        peers.server.resume()
        await asyncio.sleep(0.1)
        assert peers.served[0].bytes == b"wait"

    play(work)


def test_a_port_is_bound_once_and_is_free_after_its_end() -> None:
    async def work(peers: Peers) -> None:
        with pytest.raises(SettingsError, match="kafka_port"):
            await peers.server.run(peers.listen())
        peers.bound.close()
        await peers.server.run(peers.listen())

    play(work)
