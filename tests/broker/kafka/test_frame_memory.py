"""Memory for frames that are arriving has one bound, and a part of it for each client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.kafka.frame_memory import FrameMemory, FramePools
from strandline.config.limits import MIB

A, B, C = "192.0.2.1", "192.0.2.2", "192.0.2.3"


def test_bytes_are_taken_while_they_are_there() -> None:
    memory = FrameMemory(100, 100)
    assert memory.take(A, 60) and not memory.take(A, 41) and memory.take(A, 40)
    memory.give_back(A, 60)
    assert memory.left == 60


def test_a_connection_that_waits_is_not_overtaken() -> None:
    memory, granted = FrameMemory(100, 100), list[str]()
    assert memory.take(A, 90)
    memory.wait(B, 50, lambda: granted.append("first"))
    assert not memory.take(C, 5)
    memory.wait(C, 10, lambda: granted.append("second"))
    memory.give_back(A, 30)
    assert granted == []
    memory.give_back(A, 10)
    assert granted == ["first"]
    memory.give_back(A, 50)
    assert granted == ["first", "second"] and memory.left == 40


def test_a_connection_that_is_gone_holds_up_no_other() -> None:
    memory, granted = FrameMemory(100, 100), list[str]()
    assert memory.take(A, 50)

    def first() -> None:
        granted.append("first")

    memory.wait(B, 80, first)
    memory.wait(C, 20, lambda: granted.append("second"))
    memory.withdraw(B, first)
    assert granted == ["second"] and memory.left == 30


def test_a_client_with_its_part_holds_up_itself_alone() -> None:
    """CORRECTNESS X6: its frames may never end."""
    memory, granted = FrameMemory(100, 50), list[str]()
    assert memory.take(A, 40) and not memory.take(A, 11)
    memory.wait(A, 11, lambda: granted.append("first"))
    assert not memory.take(A, 1), "it does not overtake itself"
    memory.wait(A, 5, lambda: granted.append("second"))
    assert memory.take(B, 50) and memory.take(C, 10)
    memory.give_back(B, 50)
    assert granted == []
    memory.give_back(A, 1)
    assert granted == ["first"]
    memory.give_back(A, 39)
    assert granted == ["first", "second"] and memory.left == 100 - 10 - 11 - 5


def test_connections_that_wait_for_their_client_and_are_gone_hold_up_no_other() -> None:
    """Whether it was the first of them, or the last."""
    memory, granted = FrameMemory(100, 50), list[str]()
    assert memory.take(A, 40)

    def called(name: str) -> Callable[[], None]:
        return lambda: granted.append(name)

    calls = {name: called(name) for name in ("large", "small", "last")}
    memory.wait(A, 30, calls["large"])
    memory.wait(A, 10, calls["small"])
    memory.wait(A, 1, calls["last"])
    memory.withdraw(A, calls["last"])
    assert granted == []
    memory.withdraw(A, calls["large"])
    assert granted == ["small"] and memory.left == 50


def test_bytes_that_a_connection_waits_for_count_as_its_clients() -> None:
    """So that not all of its connections go to the queue of all at once."""
    memory, granted = FrameMemory(100, 50), list[str]()
    assert memory.take(B, 50) and memory.take(C, 40)
    for name in ("first", "second"):
        memory.wait(A, 30, lambda name=name: granted.append(name))  # type: ignore[misc]
    memory.give_back(B, 50)
    assert granted == ["first"] and memory.left == 30
    memory.give_back(A, 30)
    assert granted == ["first", "second"]


def test_the_largest_frame_finds_room() -> None:
    """Also where half of the memory is less."""
    assert FramePools(64 * MIB, 40 * MIB).large.take(A, 40 * MIB)
    pools = FramePools(64 * MIB, MIB)
    assert pools.large.take(A, 24 * MIB) and not pools.large.take(A, 1)
    assert pools.small.take(A, 8 * MIB) and not pools.small.take(A, 1)


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(1, 60), st.booleans()), max_size=30))
def test_the_bound_holds_and_each_one_gets_its_bytes(wanted: list[tuple[str, int, bool]]) -> None:
    """CORRECTNESS X6."""
    memory, held = FrameMemory(100, 60), list[tuple[str, int]]()
    for client, count, gives_back in wanted:
        if memory.take(client, count):
            held.append((client, count))
        else:
            memory.wait(client, count, lambda got=(client, count): held.append(got))  # type: ignore[misc]
        of_client = Counter[str]()
        for name, size in held:
            of_client[name] += size
        assert memory.left == 100 - of_client.total() >= 0
        assert max(of_client.values(), default=0) <= 60
        if held and gives_back:
            memory.give_back(*held.pop())
    given_out = len(wanted) * 2
    while held and given_out:
        memory.give_back(*held.pop())
        given_out -= 1
    assert not held and memory.left == 100
