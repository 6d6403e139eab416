"""What the audit log writes at once, and what it counts: no caller can fill a disk or the memory (A15)."""

from __future__ import annotations

from dataclasses import replace

from strandline.security.audit.counting import (
    CALLER_ENTRIES_MAX,
    CALLERS_MAX,
    ENTRIES_MAX,
    USES_KNOWN_MAX,
    WINDOW_S,
    Counting,
)
from strandline.security.audit.entry import Entry, Event, Source

EVE = Source("User:eve", "SSL", "192.0.2.1")


def denial(resource: str = "tides", source: Source = EVE) -> Entry:
    return Entry(Event.ACCESS, False, source, "READ", "TOPIC", resource)


def use(resource: str = "tides", source: Source = EVE) -> Entry:
    return replace(denial(resource, source), allowed=True)


def test_the_first_denial_is_written_and_the_others_are_counted() -> None:
    """A15"""
    counting = Counting()
    assert counting.note(denial(), 0.0) == [denial()]
    again = replace(denial(), source=replace(EVE, connection="another", call="Log.Fetch", request_id=7))
    for second in range(1, 60):
        assert counting.note(again, float(second)) == []
    assert counting.due(WINDOW_S - 0.1) == []
    assert counting.due(WINDOW_S) == [replace(denial(), count=59)]
    assert counting.due(WINDOW_S) == []
    assert counting.note(denial(), WINDOW_S + 1) == [denial()]


def test_an_entry_after_the_minute_comes_behind_its_counts() -> None:
    """A15"""
    counting = Counting()
    counting.note(denial(), 0.0)
    counting.note(denial(), 1.0)
    assert counting.note(denial("other"), 2 * WINDOW_S) == [replace(denial(), count=1), denial("other")]


def test_another_operation_resource_address_or_reason_is_another_entry() -> None:
    """A15"""
    counting = Counting()
    entries = [
        denial(),
        denial("other"),
        replace(denial(), operation="WRITE"),
        denial(source=replace(EVE, address="192.0.2.2")),
        Entry(Event.LOGIN, False, EVE, reason="wrong password", user="alice"),
        Entry(Event.LOGIN, False, EVE, reason="wrong password", user="bob"),
        Entry(Event.LOGIN, False, EVE, reason="unknown user", user="bob"),
        Entry(Event.LOGIN, True, EVE),
    ]
    assert [written for entry in entries for written in counting.note(entry, 0.0)] == entries


def test_a_caller_that_varies_names_is_bounded_and_hides_no_one_else() -> None:
    """A15"""
    counting = Counting()
    written = [line for n in range(5_000) for line in counting.note(denial(f"t{n}"), 0.0)]
    assert len(written) == CALLER_ENTRIES_MAX
    bob = replace(EVE, principal="User:bob")
    assert counting.note(denial(source=bob), 1.0) == [denial(source=bob)]
    assert counting.end() == [Entry(Event.ACCESS, False, EVE, others=5_000 - CALLER_ENTRIES_MAX)]


def test_many_callers_are_bounded_together() -> None:
    """A15"""
    counting = Counting()
    callers = [replace(EVE, address=f"192.0.{n >> 8}.{n & 255}") for n in range(5_000)]
    written = [line for caller in callers for line in counting.note(denial(source=caller), 0.0)]
    assert len(written) == ENTRIES_MAX
    counts = counting.end()
    assert len(counts) == CALLERS_MAX + 1
    assert sum(line.others for line in counts) == 5_000 - ENTRIES_MAX
    assert counts[-1].source == Source()


def test_a_first_use_is_written_once_while_it_is_known() -> None:
    """A15"""
    counting = Counting()
    assert counting.note(use(), 0.0) == [use()]
    assert [counting.note(use(), minute * WINDOW_S) for minute in range(1, 5)] == [[]] * 4
    for n in range(USES_KNOWN_MAX):
        counting.note(use(f"t{n}"), 0.0)
    counting.end()
    assert counting.note(use(), 6 * WINDOW_S) == [use()]


def test_every_change_is_written() -> None:
    """A15"""
    counting = Counting()
    change = Entry(Event.CHANGE, True, EVE, "CREATE", "TOPIC", "tides")
    assert [counting.note(change, 0.0) for _ in range(3)] == [[change]] * 3
