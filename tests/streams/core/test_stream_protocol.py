"""The messages between members of a stream application and their leader, as bytes."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strandline.errors import InconsistentGroupProtocol
from strandline.streams.core.protocol import AssignmentData, Directory, MemberData
from strandline.streams.core.task import TaskId

texts = st.text(st.characters(codec="utf-8"), max_size=12)
tasks = st.builds(TaskId, texts, st.integers(0, 2**31 - 1))
task_sets = st.frozensets(tasks, max_size=8)
flagged = st.dictionaries(tasks, st.booleans(), max_size=8)
member_data = st.builds(
    MemberData, task_sets, flagged, flagged, st.booleans(), texts, task_sets, st.integers(-1, 2**31 - 1)
)
assignment_data = st.builds(AssignmentData, task_sets, task_sets, flagged, task_sets, st.binary(max_size=20))


@st.composite
def directories(draw: st.DrawFn) -> Directory:
    servers = draw(st.dictionaries(texts, texts, min_size=1, max_size=4))
    return Directory(draw(st.dictionaries(tasks, st.sampled_from(sorted(servers)), max_size=8)), servers)


Said = MemberData | AssignmentData | Directory
said = st.one_of(member_data, assignment_data, directories())
MEMBER = MemberData(
    frozenset({TaskId("counts", 3)}),
    {TaskId("counts", 0): True, TaskId("sums", 1): False},
    {TaskId("sums", 2): True},
    leaving=True,
    application_server="host:80",
    assigned=frozenset({TaskId("counts", 9)}),
    generation=7,
)
ASSIGNMENT = AssignmentData(
    frozenset({TaskId("counts", 3)}),
    frozenset({TaskId("sums", 0)}),
    {TaskId("counts", 1): True},
    frozenset({TaskId("counts", 2)}),
    b"!",
)
DIRECTORY = Directory({TaskId("counts", 3): "b", TaskId("counts", 7): "a"}, {"a": "host:80", "b": ""})
EXAMPLES: tuple[Said, ...] = (MEMBER, ASSIGNMENT, DIRECTORY)


@given(said)
def test_messages_survive_encoding_and_decoding(what: Said) -> None:
    assert type(what).decode(what.encode()) == what


def test_the_bytes_of_version_0_stay_as_they_are() -> None:
    """Members of different releases are in one group while it is upgraded."""
    assert MEMBER.encode() == (
        b"\0\0" b"\0\1" b"\0\0\0\7" b"\0\7host:80"
        b"\0\0\0\1" b"\0\6counts" b"\0\0\0\1" b"\0\0\0\t"
        b"\0\0\0\1" b"\0\6counts" b"\0\0\0\1" b"\0\0\0\3"
        b"\0\0\0\1" b"\0\6counts" b"\0\0\0\1" b"\0\0\0\0"
        b"\0\0\0\1" b"\0\4sums" b"\0\0\0\1" b"\0\0\0\1"
        b"\0\0\0\1" b"\0\4sums" b"\0\0\0\1" b"\0\0\0\2"
        b"\0\0\0\0"
    )  # fmt: skip
    assert AssignmentData(frozenset({TaskId("s", 1)}), directory=b"?").encode() == (
        b"\0\0" b"\0\0\0\1" b"\0\1s" b"\0\0\0\1" b"\0\0\0\1"
        b"\0\0\0\0" b"\0\0\0\0" b"\0\0\0\0" b"\0\0\0\0" b"\0\0\0\1?"
    )  # fmt: skip
    assert DIRECTORY.encode() == (
        b"\0\0" b"\0\0\0\2" b"\0\1a" b"\0\7host:80" b"\0\1b" b"\0\0"
        b"\0\0\0\1" b"\0\6counts" b"\0\0\0\2" b"\0\0\0\3\0\0\0\7" b"\0\0\0\1\0\0\0\0"
    )  # fmt: skip


@pytest.mark.parametrize("what", EXAMPLES)
def test_a_later_version_may_add_at_the_end(what: Said) -> None:
    later = struct.pack(">h", 1) + what.encode()[2:] + b"and more"
    assert type(what).decode(later) == what


@pytest.mark.parametrize("what", EXAMPLES)
def test_nothing_may_follow_in_a_version_that_is_known(what: Said) -> None:
    with pytest.raises(InconsistentGroupProtocol, match="1 bytes too many"):
        type(what).decode(what.encode() + b"!")


@pytest.mark.parametrize("what", EXAMPLES)
def test_bytes_that_are_cut_off_anywhere_are_refused_with_the_position(what: Said) -> None:
    data = what.encode()
    for length in range(len(data)):
        with pytest.raises(InconsistentGroupProtocol, match=rf"at byte \d+ of {length}: "):
            type(what).decode(data[:length])


@given(st.sampled_from((MemberData, AssignmentData, Directory)), st.binary(max_size=200))
@example(MemberData, b"")
@example(Directory, b"\0\0" + b"\xff" * 8)
def test_any_bytes_are_read_or_refused(kind: type[Said], data: bytes) -> None:
    try:
        read = kind.decode(data)
    except InconsistentGroupProtocol as error:
        assert " at byte " in error.message
    else:
        assert kind.decode(read.encode()) == read


@given(said, st.data())
def test_any_byte_may_be_another_one(what: Said, data: st.DataObject) -> None:
    changed = bytearray(what.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        type(what).decode(bytes(changed))
    except InconsistentGroupProtocol as error:
        assert " at byte " in error.message


def int32(number: int) -> bytes:
    return struct.pack(">i", number)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (MemberData, b"\0\0\0\0" + int32(-1) + b"\0\0" + int32(2**31 - 1)),
        (MemberData, b"\0\0\0\0" + int32(-1) + b"\0\0" + int32(1) + b"\0\0" + int32(2**31 - 1)),
        (AssignmentData, b"\0\0" + int32(0) * 5 + int32(2**31 - 1)),
        (Directory, b"\0\0" + int32(2**31 - 1)),
        (Directory, b"\0\0" + int32(0) + int32(1) + b"\0\0" + int32(2**31 - 1)),
    ],
)
def test_lengths_that_promise_more_than_is_there_cost_nothing(kind: type[Said], data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InconsistentGroupProtocol):
            kind.decode(data)
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        (MemberData, struct.pack(">h", -1), "version is -1"),
        (MemberData, b"\0\0\0\2", "2 is neither 0 nor 1"),
        (MemberData, b"\0\0\0\0" + int32(-2), "generation -2"),
        (MemberData, b"\0\0\0\0" + int32(-1) + b"\xff\xff", "length of a string is -1"),
        (MemberData, b"\0\0\0\0" + int32(-1) + b"\0\1\xff", "not UTF-8"),
        (MemberData, b"\0\0\0\0" + int32(-1) + b"\0\0" + int32(-1), "length of an array is -1"),
        (
            MemberData,
            b"\0\0\0\0" + int32(-1) + b"\0\0" + int32(1) + b"\0\1s" + int32(1) + int32(-1),
            "number -1",
        ),
        (AssignmentData, b"\0\0" + int32(0) * 5 + int32(-1), "length of bytes is -1"),
        (Directory, b"\0\0" + int32(0) + int32(1) + b"\0\1s" + int32(1) + int32(0) * 2, "number 0"),
    ],
)
def test_each_wrong_thing_is_named(kind: type[Said], data: bytes, why: str) -> None:
    with pytest.raises(InconsistentGroupProtocol, match=why):
        kind.decode(data)


def test_an_empty_message_is_a_few_bytes() -> None:
    assert len(MemberData().encode()) < 40 and len(AssignmentData().encode()) < 30
