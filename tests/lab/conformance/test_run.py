"""Which cases run at which versions, and what is wrong with a case."""

from __future__ import annotations

from typing import Any

from strandline_lab.conformance.batches import Batch
from strandline_lab.conformance.case import Call, Case, Group, Topic, TopicId, in_version, topics_of
from strandline_lab.conformance.definitions import Messages
from strandline_lab.conformance.run import faults, planned
from strandline_lab.conformance.system import at, codes


def definition(name: str, key: int, *fields: str) -> dict[str, Any]:
    return {
        "apiKey": key,
        "type": "request",
        "name": f"{name}Request",
        "validVersions": "0-5",
        "flexibleVersions": "none",
        "fields": [{"name": each, "type": "int8", "versions": "0+"} for each in fields],
    }


MESSAGES = Messages([definition("Ask", 1, "A"), definition("Begin", 2, "B")])


def versions_of(case: Case, ours: dict[str, range], kafkas: dict[str, range]) -> list[int]:
    (found,) = planned([case], ours, kafkas, MESSAGES).values()
    return found


def test_a_case_runs_at_versions_that_both_advertise_and_the_jar_defines() -> None:
    case = Case("c", Call("Ask", {}), since=2)
    assert versions_of(case, {"Ask": range(9)}, {"Ask": range(1, 8)}) == [2, 3, 4, 5]
    assert versions_of(case, {"Ask": range(3)}, {"Ask": range(3, 8)}) == []
    assert versions_of(case, {}, {"Ask": range(8)}) == []


def test_a_case_waits_for_what_it_sends_first() -> None:
    case = Case("c", Call("Ask", {}), before=[Call("Begin", {}, version=4)])
    asks = {"Ask": range(2)}
    assert versions_of(case, asks | {"Begin": range(5)}, asks | {"Begin": range(5)}) == [0, 1]
    assert versions_of(case, asks | {"Begin": range(4)}, asks | {"Begin": range(5)}) == []


def test_a_version_is_written_into_names() -> None:
    body = {"Name": "t.{v}", "Ids": [TopicId("t.{v}")], "Count": 3, "Batch": Batch()}
    assert in_version(body, 7) == {"Name": "t.7", "Ids": [TopicId("t.7")], "Count": 3, "Batch": Batch()}
    assert in_version(Group("g.{v}"), 7) == Group("g.7")
    case = Case("c", Call("Ask", {}), topics=(Topic("t.{v}", 2),))
    assert list(topics_of(case, [1, 2])) == [Topic("t.1", 2), Topic("t.2", 2)]


def test_a_field_that_no_version_has_is_a_fault() -> None:
    assert faults([Case("c", Call("Ask", {"A": 1, "Z": [{"Y": 1}]}))], MESSAGES) == [
        "Ask: c: Ask has no Y, Z"
    ]


def test_a_name_that_is_there_twice_is_a_fault() -> None:
    assert faults([Case("c", Call("Ask", {}))] * 2, MESSAGES) == ["Ask: c is there twice"]


def test_values_are_taken_by_paths_and_codes_at_any_depth() -> None:
    answer = {"ErrorCode": 0, "Topics": [{"Id": 5, "Partitions": [{"ErrorCode": 6}]}]}
    assert at(answer, "Topics.0.Id") == 5
    assert at(answer, "Topics.1.Id") is None
    assert list(codes(answer)) == [0, 6]
