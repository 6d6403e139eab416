"""A coordinator checks the records in its log like requests (CORRECTNESS X1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.core.groups.records import (
    GENERATION_MAX,
    GroupValue,
    StoredMember,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)
from strandline.config.limits import GROUP_ID_LENGTH_MAX
from strandline.errors import StrandlineError
from strandline.vocabulary.groups import CommittedOffset, Joined
from tests.broker.core.groups.support.stage import BEGIN_MS, GROUP, LIMITS, Stage, partition

LONG = "x" * (GROUP_ID_LENGTH_MAX + 1)
A = StoredMember("a", None, "client", "host", 60_000, 10_000, b"topics", b"a")
B = replace(A, member="b", assignment=b"b")
SOUND = GroupValue("consumer", 5, "range", "a", BEGIN_MS, (A, B))


def loading(*values: GroupValue) -> Stage:
    """A coordinator that has read these in their order, and then serves; it skips records that it refuses."""
    refusing = Stage()
    for value in values:
        read(refusing, encode_group_key(GROUP), encode_group_value(value))
    return refusing.elsewhere()


def read(stage: Stage, key: bytes, value: bytes) -> StrandlineError | None:
    try:
        stage.core.load(key, value, BEGIN_MS)
    except StrandlineError as error:
        return error
    stage.log.append((key, value))
    return None


IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "negative generation": {"generation": -1},
    "members without a generation": {"generation": 0},
    "members without a protocol": {"protocol": None},
    "members without a protocol type": {"protocol_type": ""},
    "protocol type too long": {"protocol_type": LONG},
    "protocol with a control character": {"protocol": "a\n"},
    "leader too long": {"leader": LONG},
    "two members of one instance": {"members": (replace(A, instance="i"), replace(B, instance="i"))},
    "empty instance": {"members": (replace(A, instance=""),)},
    "empty member id": {"members": (replace(A, member=""),)},
    "member id with a control character": {"members": (replace(A, member="a\x1b[2J"),)},
    "client id too long": {"members": (replace(A, client_id=LONG),)},
    "host too long": {"members": (replace(A, host=LONG),)},
    "session timeout of 0": {"members": (replace(A, session_timeout_ms=0),)},
    "session timeout below 0": {"members": (replace(A, session_timeout_ms=-(2**31)),)},
    "rebalance timeout below 0": {"members": (replace(A, rebalance_timeout_ms=-1),)},
    "more bytes than a group may have": {"members": (replace(A, metadata=b"x" * 3_000_000),)},
}


@pytest.mark.parametrize("changes", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_an_impossible_group_record_is_refused_and_changes_nothing(changes: dict[str, Any]) -> None:
    """CORRECTNESS X1: the group keeps the state of the previous record, and its members continue."""
    stage = loading(SOUND)
    error = read(stage, encode_group_key(GROUP), encode_group_value(replace(SOUND, **changes)))
    assert isinstance(error, StrandlineError)
    stage.play(stage.core.loaded(stage.now))
    assert (stage.state, stage.generation) == ("Stable", 5)
    assert stage.answer(stage.heartbeat("b", 5), type(None)) is None


@pytest.mark.parametrize("group", ["", LONG, "a\x00b"])
def test_a_record_of_an_impossible_group_id_is_refused(group: str) -> None:
    stage = Stage()
    assert read(stage, encode_group_key(group), encode_group_value(SOUND)) is not None
    offset = encode_offset_value(CommittedOffset(1))
    assert read(stage, encode_offset_key(group, partition(0)), offset) is not None


@pytest.mark.parametrize(
    ("name", "committed"),
    [
        (partition(-1), CommittedOffset(1)),
        (partition(0, ""), CommittedOffset(1)),
        (partition(0, LONG), CommittedOffset(1)),
        (partition(0, "a\nb"), CommittedOffset(1)),
        (partition(0), CommittedOffset(1, -2)),
    ],
)
def test_an_impossible_offset_record_is_refused(name: Any, committed: CommittedOffset) -> None:
    stage = Stage()
    assert read(stage, encode_offset_key(GROUP, name), encode_offset_value(committed)) is not None
    assert stage.committed() == {}


def test_an_offset_below_0_is_read_again() -> None:
    """Kafka's clients get back what they commit."""
    stage = Stage()
    below = encode_offset_value(CommittedOffset(-5))
    assert read(stage, encode_offset_key(GROUP, partition(0)), below) is None
    assert stage.committed() == {partition(0): -5}


def test_timeouts_of_other_settings_are_brought_within_these() -> None:
    """The limits may have been wider when the record was written: the group lives on within today's."""
    most = LIMITS.group_session_timeout_ms_max
    stage = loading(replace(SOUND, members=(replace(A, session_timeout_ms=2**31 - 1),)))
    assert stage.state == "Stable"
    stage.later(most / 1000 + 1)
    assert stage.state == "Empty"


def test_after_the_last_generation_comes_the_first() -> None:
    """As in Kafka: a group at 2^31 − 1 rebalances like any other (CORRECTNESS X1)."""
    stage = loading(replace(SOUND, generation=GENERATION_MAX))
    tokens = {"a": stage.join("a", reason="again"), "b": stage.join("b")}
    assert stage.answer(tokens["a"], Joined).generation == 1
    assert stage.generation == 1
    stage.sync_all(tokens)
    assert stage.elsewhere().generation == 1


TEXT = st.sampled_from(["", "a", "b", "S", LONG, "\x00", "é" * 200, "a" * GROUP_ID_LENGTH_MAX])
INT32 = st.sampled_from([-(2**31), -1, 0, 1, 500, 10_000, 1_800_001, 2**31 - 2, 2**31 - 1])
MEMBERS = st.builds(
    StoredMember,
    member=TEXT,
    instance=st.none() | TEXT,
    client_id=TEXT,
    host=TEXT,
    rebalance_timeout_ms=INT32,
    session_timeout_ms=INT32,
    metadata=st.binary(max_size=4),
    assignment=st.binary(max_size=4),
)
VALUES = st.builds(
    GroupValue,
    protocol_type=TEXT,
    generation=INT32,
    protocol=st.none() | TEXT,
    leader=st.none() | TEXT,
    at_ms=st.sampled_from([-(2**63), -1, 0, BEGIN_MS, 2**63 - 1]),
    members=st.lists(MEMBERS, max_size=3, unique_by=lambda member: member.member).map(tuple),
)


@given(st.lists(VALUES, max_size=3), st.booleans())
def test_no_record_ends_a_turn(values: list[GroupValue], rejoin: bool) -> None:
    """With any well-formed records, no turn of the group fails: no request, no timer, and none of the next
    coordinator (CORRECTNESS X1). `Stage` raises the errors of a turn."""
    stage = loading(*values)
    if rejoin:
        stage.join("a")
    stage.heartbeat("a", 2**31 - 1)
    stage.commit({partition(0): 1})
    stage.later(4_000)
    stage.enter("new")
    stage.later(4_000)
    stage.elsewhere().unload()
    stage.unload()
