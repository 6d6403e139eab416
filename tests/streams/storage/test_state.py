"""A running task's view of its state, its commits, and what it drops (CORRECTNESS S3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline.ids import TopicPartition
from strandline.streams.core.changelog import CHANGELOG_START, LOGS_KEY, POSITION_KEY, state_key
from strandline.streams.core.positions import Positions
from strandline.streams.storage.errors import StoreClosed
from strandline.streams.storage.state import KNOWN_BYTES_MAX, TaskState
from strandline.streams.storage.stores import Change
from strandline.streams.storage.task_store import TaskStore
from strandline.vocabulary.log_position import LogPosition

IN = TopicPartition("in", 0)
STORES = st.sampled_from(["", "a", "ab"])
KEYS = st.binary(max_size=2)
VALUES = st.none() | st.binary(max_size=3)
Content = dict[tuple[str, bytes], bytes]


class StateAndModel(RuleBasedStateMachine):
    """The model is three dicts: what the task sees, what was listed last, and what was settled."""

    store: TaskStore

    @initialize()
    def start(self) -> None:
        left = [(key, None) for key, _ in self.store.range(CHANGELOG_START, None)]
        self.store.apply(left, self.store.checkpoint)
        self.state = TaskState(self.store)
        self.seen: Content = {}
        self.listed: Content | None = None
        self.listed_positions = Positions()
        self.changed: list[bytes] = []
        """Since the last list that was settled, in the order of first change."""
        self.fresh: dict[bytes, None] = {}
        """Since the last list, in the order of first change."""
        self.settled: Content = {}
        self.settled_positions = Positions()
        self.offset = 0

    @rule(store=STORES, key=KEYS, value=VALUES)
    def put(self, store: str, key: bytes, value: bytes | None) -> None:
        self.state.put(store, key, value)
        if value is None:
            self.seen.pop((store, key), None)
        else:
            self.seen[store, key] = value
        full = state_key(store, key)
        if full not in self.changed:
            self.changed.append(full)
        self.fresh[full] = None

    @rule(store=STORES, key=KEYS)
    def get(self, store: str, key: bytes) -> None:
        assert self.state.get(store, key) == self.seen.get((store, key))

    @rule(store=STORES, start=st.none() | KEYS, end=st.none() | KEYS, then=st.lists(st.tuples(KEYS, VALUES)))
    def look_at_range(
        self, store: str, start: bytes | None, end: bytes | None, then: list[tuple[bytes, bytes | None]]
    ) -> None:
        """It shows the state at its begin, even if changes follow before it is read."""
        expected = sorted(
            (key, value)
            for (of, key), value in self.seen.items()
            if of == store and (start is None or start <= key) and (end is None or key < end)
        )
        rows = self.state.range(store, start, end)
        for key, value in then:
            self.put(store, key, value)
        assert list(rows) == expected

    @rule()
    def list_changes(self) -> None:
        self.offset += 1
        positions = Positions({IN: LogPosition(self.offset)})
        changes = self.state.changes(positions)
        assert [key for key, _ in changes] == [*self.changed, LOGS_KEY, POSITION_KEY]
        for key, value in changes[:-2]:
            assert value == self.value_of(key)
        assert dict(changes[-2:]) == positions.rows()
        self.listed, self.listed_positions = dict(self.seen), positions
        self.fresh = {}

    @precondition(lambda self: self.listed is not None)
    @rule()
    def settle(self) -> None:
        assert self.listed is not None
        self.state.settle(self.store.checkpoint + 1)
        self.settled, self.settled_positions = self.listed, self.listed_positions
        self.listed = None
        self.changed = list(self.fresh)

    @rule()
    def discard(self) -> None:
        self.state.discard()
        self.seen, self.listed = dict(self.settled), None
        self.changed, self.fresh = [], {}

    @rule()
    def restart(self) -> None:
        """Another task over the same store finds what was settled."""
        self.discard()
        self.state = TaskState(self.store)

    @invariant()
    def the_store_has_what_was_settled_and_no_more(self) -> None:
        assert dict(self.store.range(state_key("", b""), None)) == {
            state_key(*name): value for name, value in self.settled.items()
        }
        assert self.store.positions() == self.settled_positions

    @invariant()
    def dirty_bytes_are_those_that_are_not_listed(self) -> None:
        assert self.state.dirty_bytes == sum(len(key) + len(self.value_of(key) or b"") for key in self.fresh)

    def value_of(self, full: bytes) -> bytes | None:
        return next((value for name, value in self.seen.items() if state_key(*name) == full), None)


TestStateAndModel = StateAndModel.TestCase
TestStateAndModel.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


@pytest.fixture(scope="module", autouse=True)
def one_store_for_all_examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """To open one takes longer than an example."""
    StateAndModel.store = TaskStore.open(tmp_path_factory.mktemp("state"), "id-0")
    yield
    StateAndModel.store.close()


def test_changes_during_a_commit_wait_for_the_next_one(tmp_path: Path) -> None:
    """The changelog does not have it yet, so neither may the store (CORRECTNESS S3)."""
    store = TaskStore.open(tmp_path, "id-0")
    state = TaskState(store)
    state.put("counts", b"k", b"1")
    first = state.changes(Positions({IN: LogPosition(1)}))
    state.put("counts", b"k", b"2")
    assert state.get("counts", b"k") == b"2"
    state.settle(2)
    assert first == [(state_key("counts", b"k"), b"1"), *Positions({IN: LogPosition(1)}).rows().items()]
    assert store.get(state_key("counts", b"k")) == b"1"
    assert (store.checkpoint, store.positions()) == (2, Positions({IN: LogPosition(1)}))
    assert state.get("counts", b"k") == b"2"
    second: list[Change] = state.changes(Positions({IN: LogPosition(2)}))
    assert second[0] == (state_key("counts", b"k"), b"2")
    store.close()


def test_a_failed_commits_changes_are_listed_again_with_later_ones(tmp_path: Path) -> None:
    store = TaskStore.open(tmp_path, "id-0")
    state = TaskState(store)
    state.put("counts", b"a", b"1")
    state.changes(Positions({IN: LogPosition(1)}))
    state.put("counts", b"b", b"2")
    assert state.changes(Positions({IN: LogPosition(2)})) == [
        (state_key("counts", b"a"), b"1"),
        (state_key("counts", b"b"), b"2"),
        *Positions({IN: LogPosition(2)}).rows().items(),
    ]
    store.close()


def test_a_settle_that_the_store_refuses_loses_nothing(tmp_path: Path) -> None:
    store = TaskStore.open(tmp_path, "id-0")
    state = TaskState(store)
    state.put("counts", b"a", b"1")
    state.changes(Positions())
    store.close()
    with pytest.raises(StoreClosed):
        state.settle(1)
    assert state.get("counts", b"a") == b"1"


def test_no_value_is_taken_for_one_that_is_not_known(tmp_path: Path) -> None:
    """A value of one byte is the same object wherever it comes from."""
    store = TaskStore.open(tmp_path, "id-0")
    state = TaskState(store)
    for number in range(256):
        state.put("counts", b"k", bytes((number,)))
        assert state.get("counts", b"k") == bytes((number,))
    store.close()


def test_a_state_that_is_larger_than_what_is_kept_at_hand_is_the_same(tmp_path: Path) -> None:
    store = TaskStore.open(tmp_path, "id-0")
    state = TaskState(store)
    keys = [b"%d" % number for number in range(40)]
    size = KNOWN_BYTES_MAX // 10
    for life in range(3):
        for key in keys:
            state.put("counts", key, key * (size // len(key)) + b"%d" % life)
        state.changes(Positions({IN: LogPosition(life)}))
        state.put("counts", keys[0], b"not settled %d" % life)
        state.settle(life + 1)
        assert state.get("counts", keys[0]) == b"not settled %d" % life
        assert all(state.get("counts", key) == store.get(state_key("counts", key)) for key in keys[1:])
    state.discard()
    assert all(state.get("counts", key) == store.get(state_key("counts", key)) for key in keys)
    store.close()
