"""What is issued in one turn of the loop is one request, and each caller gets the outcome of its own
(CORRECTNESS E22)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from strandline.adapters.zookeeper.requests.merged import (
    OPERATIONS_MERGED_MAX,
    READS_MERGED_MAX,
    Answered,
    Carried,
    MergedReads,
    MergedWrites,
    Results,
)
from strandline.config.limits import MULTI_BYTES_MAX
from strandline.errors import CoordinationError
from strandline.ports import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    MultiFailed,
    NoNode,
    Operation,
    SetData,
    Znode,
)


def node(path: str) -> Znode:
    return Znode(path.encode(), 0, 1, 1, 0)


@dataclass
class Server:
    """Takes requests, and answers them later."""

    bad: set[str] = field(default_factory=set)
    """Paths whose operations are refused, or which do not exist."""
    asked: list[list[str]] = field(default_factory=list)
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def read(self, paths: Sequence[str], answered: Answered) -> None:
        self.asked.append(list(paths))
        found = [NoNode(path) if path in self.bad else node(path) for path in paths]
        self.waiting.append(lambda: answered(found))

    def write(self, operations: Sequence[Operation], carried: Carried) -> None:
        paths = [operation.path for operation in operations]
        self.asked.append(paths)
        refused = next((index for index, path in enumerate(paths) if path in self.bad), None)
        outcome: Results | CoordinationError = (
            [*paths] if refused is None else MultiFailed(refused, BadVersion(paths[refused]))
        )
        self.waiting.append(lambda: carried(outcome))

    def lose(self, carried: Carried) -> None:
        self.waiting.append(lambda: carried(ConnectionLost("lost")))

    async def answer_all(self) -> None:
        """Answers in order, until nothing is asked any further."""
        while True:
            await asyncio.sleep(0)
            if not self.waiting:
                return
            self.waiting.pop(0)()


@pytest.fixture
def server() -> Server:
    return Server()


def reading(server: Server, paths: Sequence[str]) -> list[asyncio.Future[Znode]]:
    loop = asyncio.get_running_loop()
    reads = MergedReads(loop, server.read)
    answers = [loop.create_future() for _ in paths]
    for path, answer in zip(paths, answers, strict=True):
        reads.get(path, answer)
    return answers


def writing(server: Server, multis: Sequence[Sequence[Operation]]) -> list[asyncio.Future[Results]]:
    loop = asyncio.get_running_loop()
    writes = MergedWrites(loop, server.write)
    outcomes = [loop.create_future() for _ in multis]
    for operations, outcome in zip(multis, outcomes, strict=True):
        writes.multi(operations, outcome)
    return outcomes


def numbered(count: int) -> list[list[Operation]]:
    return [[Create(f"/{number}"), Check(f"/{number}/second")] for number in range(count)]


async def settled(future: Awaitable[Results]) -> object:
    try:
        return await future
    except MultiFailed as error:
        return error.index


async def test_reads_of_one_turn_are_one_request_and_each_has_its_own_answer(server: Server) -> None:
    server.bad = {"/b"}
    a, b, c = reading(server, ["/a", "/b", "/c"])
    await server.answer_all()
    assert server.asked == [["/a", "/b", "/c"]]
    assert (await a, await c) == (node("/a"), node("/c"))
    with pytest.raises(NoNode, match="/b"):
        await b


async def test_a_request_reads_a_bounded_number_of_znodes(server: Server) -> None:
    answers = reading(server, [f"/{number}" for number in range(READS_MERGED_MAX + 1)])
    await server.answer_all()
    assert [len(paths) for paths in server.asked] == [READS_MERGED_MAX, 1]
    assert [(await answer).data for answer in answers][-1] == f"/{READS_MERGED_MAX}".encode()


async def test_a_caller_that_gave_up_is_not_asked_for(server: Server) -> None:
    gone, kept = reading(server, ["/gone", "/kept"])
    gone.cancel()
    await server.answer_all()
    assert server.asked == [["/kept"]]
    assert (await kept).data == b"/kept"


async def test_multis_of_one_turn_are_one_request(server: Server) -> None:
    outcomes = writing(server, [[Create("/a"), Check("/b")], [Create("/c")]])
    await server.answer_all()
    assert server.asked == [["/a", "/b", "/c"]]
    assert [await each for each in outcomes] == [["/a", "/b"], ["/c"]]


@pytest.mark.parametrize("refused", [{0}, {3}, {6}, {0, 1}, {2, 5}, set(range(7))])
async def test_only_the_caller_of_a_refused_operation_fails(server: Server, refused: set[int]) -> None:
    server.bad = {f"/{number}/second" for number in refused}
    multis: list[list[Operation]] = [
        [Create(f"/{number}"), Check(f"/{number}/second")] for number in range(7)
    ]
    outcomes = writing(server, multis)
    await server.answer_all()
    for number, outcome in enumerate(outcomes):
        expected = 1 if number in refused else [f"/{number}", f"/{number}/second"]
        assert await settled(outcome) == expected
    assert len(server.asked) <= 1 + 3 * len(refused)


async def test_a_multi_is_never_divided(server: Server) -> None:
    """A caller's operations are in the same request, also where it is asked for again."""
    server.bad = {"/4"}
    multis: list[list[Operation]] = [
        [Create(f"/{number}"), Check(f"/{number}/second")] for number in range(9)
    ]
    outcomes = writing(server, multis)
    await server.answer_all()
    assert [await settled(outcome) for outcome in outcomes][4] == 0
    for paths in server.asked:
        assert paths[1::2] == [f"{path}/second" for path in paths[::2]]


async def test_who_gave_up_is_not_asked_for_again(server: Server) -> None:
    """A multi that was rolled back because of another's is not repeated for a caller that is gone."""
    server.bad = {"/bad"}
    gone, bad, kept = writing(server, [[Create("/gone")], [Create("/bad")], [Create("/kept")]])
    await asyncio.sleep(0)
    gone.cancel()
    await server.answer_all()
    assert server.asked == [["/gone", "/bad", "/kept"], ["/kept"], ["/bad"]]
    assert (await settled(bad), await kept) == (0, ["/kept"])


async def test_a_lost_connection_leaves_every_outcome_unknown(server: Server) -> None:
    loop = asyncio.get_running_loop()
    writes = MergedWrites(loop, lambda _, carried: server.lose(carried))
    outcomes: list[asyncio.Future[Results]] = [loop.create_future() for _ in range(2)]
    for outcome in outcomes:
        writes.multi([Create("/a")], outcome)
    await server.answer_all()
    errors = [outcome.exception() for outcome in outcomes]
    assert all(isinstance(error, ConnectionLost) for error in errors)
    assert errors[0] is not errors[1]


async def test_a_request_writes_a_bounded_number_of_operations_and_bytes(server: Server) -> None:
    large = SetData("/large", b"x" * (MULTI_BYTES_MAX // 2))
    many = [Check("/check")] * (OPERATIONS_MERGED_MAX + 1)
    outcomes = writing(server, [[large], [large], many, [Create("/last")]])
    await server.answer_all()
    assert [len(paths) for paths in server.asked] == [1, 1, OPERATIONS_MERGED_MAX + 1, 1]
    assert [len(await outcome) for outcome in outcomes] == [1, 1, OPERATIONS_MERGED_MAX + 1, 1]


async def test_what_is_issued_in_a_later_turn_is_another_request(server: Server) -> None:
    loop = asyncio.get_running_loop()
    reads = MergedReads(loop, server.read)
    first, second = loop.create_future(), loop.create_future()
    reads.get("/first", first)
    await asyncio.sleep(0)
    reads.get("/second", second)
    await server.answer_all()
    assert server.asked == [["/first"], ["/second"]]
    assert ((await first).data, (await second).data) == (b"/first", b"/second")
