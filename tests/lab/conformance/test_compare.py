"""What counts as a difference, and how the table of known ones is held."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from strandline_lab.conformance.__main__ import TABLE
from strandline_lab.conformance.cases import CASES
from strandline_lab.conformance.compare import Difference, differences, judged, read_table, row
from strandline_lab.conformance.normal import Known, whole

NUMBER = UUID(int=7)
KNOWN = Known({NUMBER: "t"}, {"member": "m-123"}, 1_700_000_000_000)


def found(ours: Any, kafkas: Any) -> list[tuple[str, str, str]]:
    return list(differences(whole(ours, KNOWN), whole(kafkas, KNOWN)))


def test_equal_answers_do_not_differ() -> None:
    answer = {"ErrorCode": 0, "Topics": [{"Name": "t", "Partitions": [{"PartitionIndex": 0}]}]}
    assert found(answer, answer) == []


def test_a_field_is_named_by_its_path() -> None:
    ours = {"Topics": [{"Name": "t", "ErrorCode": 3}]}
    kafkas = {"Topics": [{"Name": "t", "ErrorCode": 5}]}
    assert found(ours, kafkas) == [("Topics.ErrorCode", "3", "5")]


def test_what_stands_beside_another_error_is_left_out() -> None:
    assert found({"ErrorCode": 3, "Text": "a"}, {"ErrorCode": 5, "Text": "b"}) == [("ErrorCode", "3", "5")]


def test_the_order_of_elements_does_not_count() -> None:
    ours = {"Topics": [{"Name": "a"}, {"Name": "b"}]}
    assert found(ours, {"Topics": ours["Topics"][::-1]}) == []


def test_an_element_of_one_side_is_named() -> None:
    kafkas = {"Topics": [{"Name": "a"}, {"Name": "b"}]}
    assert found({"Topics": [{"Name": "a"}]}, kafkas) == [("Topics[b]", "absent", "present")]
    assert found({"Topics": []}, {"Topics": [{"Name": "a"}] * 2}) == [("Topics[a]", "absent", "present")] * 2


def test_configs_are_named_in_paths() -> None:
    ours, kafkas = ({"Configs": [{"Name": "x", "Value": each}]} for each in ("1", "2"))
    assert found(ours, kafkas) == [("Configs[x].Value", "1", "2")]


def test_no_answer_is_a_difference_of_the_whole() -> None:
    assert found({"ErrorCode": 0}, "(no answer)") == [(".", "{…}", "(no answer)")]


@pytest.mark.parametrize(
    ("ours", "kafkas"),
    [
        ({"ThrottleTimeMs": 1}, {"ThrottleTimeMs": 2}),
        ({"ClusterId": "a"}, {"ClusterId": "b"}),
        ({"Port": 1}, {"Port": 2}),
        ({"LeaderId": 1}, {"LeaderId": 2}),
        ({"ReplicaNodes": [3, 1, 2]}, {"ReplicaNodes": [1, 2, 3]}),
        ({"ReplicaNodes": [3, 1]}, {"ReplicaNodes": [1, 2]}),
        ({"MemberId": "a"}, {"MemberId": "b"}),
        ({"ErrorMessage": "a"}, {"ErrorMessage": "b"}),
        ({"TopicId": UUID(int=8)}, {"TopicId": UUID(int=9)}),
        ({"LogAppendTimeMs": 1_700_003_600_001}, {"LogAppendTimeMs": 1_700_003_700_001}),
    ],
)
def test_what_systems_must_choose_does_not_count(ours: Any, kafkas: Any) -> None:
    assert found(ours, kafkas) == []


@pytest.mark.parametrize(
    ("ours", "kafkas"),
    [
        ({"ClusterId": None}, {"ClusterId": "b"}),
        ({"LeaderId": -1}, {"LeaderId": 2}),
        ({"ReplicaNodes": [1]}, {"ReplicaNodes": [1, 2]}),
        ({"MemberId": ""}, {"MemberId": "b"}),
        ({"MemberId": "m-123"}, {"MemberId": "b"}),
        ({"ErrorMessage": None}, {"ErrorMessage": "b"}),
        ({"TopicId": NUMBER}, {"TopicId": UUID(int=0)}),
        ({"Timestamp": 1_700_000_000_005}, {"Timestamp": 1_700_000_000_006}),
        ({"Timestamp": -1}, {"Timestamp": 1_700_003_600_001}),
    ],
)
def test_what_clients_can_see_counts(ours: Any, kafkas: Any) -> None:
    assert len(found(ours, kafkas)) == 1


def test_only_elements_of_the_case_are_compared() -> None:
    known = Known({}, {}, 0, "mine")
    assert whole({"Groups": [{"GroupId": "mine.1"}, {"GroupId": "other"}]}, known) == {
        "Groups": [{"GroupId": "mine.1"}]
    }


# --- the table --------------------------------------------------------------------------------

ONE = Difference("Fetch", 5, "a case", "Topics.ErrorCode", "1", "2")


def test_a_row_explains_a_difference() -> None:
    judgement = judged([ONE], [row("Fetch 4-12 | a * | Topics.ErrorCode | 1 | *", "why")], ["Fetch"])
    assert (judgement.new, judgement.stale, judgement.known) == ([], [], {"why": 1})


@pytest.mark.parametrize(
    "text",
    [
        "Fetch 6-12 | a case | Topics.ErrorCode | 1 | 2",
        "Fetch 4+ | another case | Topics.ErrorCode | 1 | 2",
        "Fetch 4+ | a case | Topics | 1 | 2",
        "Fetch 4+ | a case | Topics.ErrorCode | 2 | 1",
        "Fetch 5 | a.case | Topics.ErrorCode | 1 | 2",
    ],
)
def test_a_row_that_fits_nothing_is_stale_and_the_difference_is_new(text: str) -> None:
    stale = row(text, "why")
    judgement = judged([ONE], [stale], ["Fetch"])
    assert (judgement.new, judgement.stale, judgement.known) == ([ONE], [stale], {})


def test_rows_of_apis_that_did_not_run_are_not_stale() -> None:
    assert judged([], [row("Produce 3+ | * | * | * | *", "why")], ["Fetch"]).stale == []


def test_a_row_is_shown_as_it_is_written() -> None:
    for text in ("Fetch 4+ | * | a[b].C | null | []", "Fetch 4-12 | * | a | 1 | 2"):
        assert str(row(text, "")) == text


def test_a_row_with_too_few_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="has 4 cells"):
        row("Fetch 4+ | * | a | b", "why")


def test_the_table_of_this_project_can_be_read_and_names_cases() -> None:
    cases = {case.api for case in CASES}
    table = read_table(TABLE)
    assert {each.api for each in table} <= {*cases, "*"}
    assert all(each.reason for each in table)


def test_no_two_cases_of_an_api_have_one_name() -> None:
    names = [(case.api, case.name) for case in CASES]
    assert len(names) == len(set(names))
