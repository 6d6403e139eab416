"""Memory for frames that are arriving has one bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.kafka.frame_memory import FrameMemory


def test_bytes_are_taken_while_they_are_there() -> None:
    memory = FrameMemory(100)
    assert memory.take(60) and not memory.take(41) and memory.take(40)
    memory.give_back(60)
    assert memory.left == 60


def test_a_connection_that_waits_is_not_overtaken() -> None:
    memory, granted = FrameMemory(100), list[str]()
    assert memory.take(90)
    memory.wait(50, lambda: granted.append("first"))
    assert not memory.take(5)
    memory.wait(10, lambda: granted.append("second"))
    memory.give_back(30)
    assert granted == []
    memory.give_back(10)
    assert granted == ["first"]
    memory.give_back(50)
    assert granted == ["first", "second"] and memory.left == 40


def test_a_connection_that_is_gone_holds_up_no_other() -> None:
    memory, granted = FrameMemory(100), list[str]()
    assert memory.take(50)

    def first() -> None:
        granted.append("first")

    memory.wait(80, first)
    memory.wait(20, lambda: granted.append("second"))
    memory.withdraw(first)
    assert granted == ["second"] and memory.left == 30


@given(st.lists(st.tuples(st.integers(1, 100), st.booleans()), max_size=30))
def test_the_bound_holds_and_each_one_gets_its_bytes(wanted: list[tuple[int, bool]]) -> None:
    """CORRECTNESS X6."""
    memory, held = FrameMemory(100), list[int]()
    for count, gives_back in wanted:
        if memory.take(count):
            held.append(count)
        else:
            memory.wait(count, lambda count=count: held.append(count))  # type: ignore[misc]
        assert memory.left == 100 - sum(held) >= 0
        if held and gives_back:
            memory.give_back(held.pop())
    given_out = len(wanted) * 2
    while held and given_out:
        memory.give_back(held.pop())
        given_out -= 1
    assert not held and memory.left == 100
