"""When a broker examines a partition without a leader."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.broker.core.election.vacancies import LOST_STEP_PARTS, Vacancies, Vacancy
from strandline.ids import PartitionId, PartitionKey, TopicId

STEP_S = 0.3
BEGAN = 100.0
LATER = 101.0
KEY = PartitionKey(TopicId("0a" * 16), PartitionId(0))
OTHER = PartitionKey(KEY.topic_id, PartitionId(1))

Vacant = Vacancies[str]
Act = Callable[[Vacant, Vacancy[str]], object]

ACTS: dict[str, Act] = {
    "notice": lambda vacancies, each: vacancies.notice(each.key, each.replica, LATER),
    "settle": lambda vacancies, each: vacancies.settle(each),
    "drop": lambda vacancies, each: vacancies.drop(each.key),
    "later": lambda vacancies, each: vacancies.later([each], LATER),
    "again": lambda vacancies, each: vacancies.again(each, LATER),
    "lost": lambda vacancies, each: vacancies.lost(each, LATER),
    "no turn": lambda vacancies, each: vacancies.has_turn(each, 10, LATER),
    "turn": lambda vacancies, each: vacancies.has_turn(each, 0, LATER),
    "look": lambda vacancies, each: vacancies.look(each),
}

NEVER = None
GONE = "gone"
TURN_OF_10 = BEGAN + 10 * STEP_S

# The time at which it is due after each act, of a vacancy that is due at BEGAN, and of one that is looked at.
TABLE = {
    "notice": (LATER, LATER),
    "settle": (BEGAN, GONE),
    "drop": (GONE, GONE),
    "later": (LATER + STEP_S, LATER + STEP_S),
    "again": (LATER, LATER),
    "lost": (LATER + STEP_S / LOST_STEP_PARTS, LATER + STEP_S / LOST_STEP_PARTS),
    "no turn": (BEGAN, TURN_OF_10),
    "turn": (BEGAN, NEVER),
    "look": (NEVER, NEVER),
}


def noticed() -> tuple[Vacant, Vacancy[str]]:
    vacancies = Vacant(STEP_S)
    vacancies.notice(KEY, "replica", BEGAN)
    (vacancy,) = vacancies.due(BEGAN)
    return vacancies, vacancy


@pytest.mark.parametrize("looked_at", [False, True], ids=["due", "looked at"])
@pytest.mark.parametrize("act", sorted(ACTS))
def test_from_each_state_each_act_leads_to(act: str, looked_at: bool) -> None:
    vacancies, vacancy = noticed()
    if looked_at:
        vacancies.look(vacancy)
    ACTS[act](vacancies, vacancy)
    wanted = TABLE[act][looked_at]
    assert (KEY in vacancies) == (wanted != GONE)
    assert vacancies.next_due() == (None if wanted == GONE else pytest.approx(wanted, abs=0.02))


def test_a_vacancy_that_is_noticed_while_it_is_looked_at_is_examined_again() -> None:
    """CORRECTNESS E8: the notice may be about something that the examination did not see."""
    vacancies, vacancy = noticed()
    vacancies.look(vacancy)
    vacancies.notice(KEY, "replica", LATER)
    vacancies.settle(vacancy)
    assert vacancies.due(LATER) == [vacancy]


def test_the_waits_of_the_ranks_count_from_the_first_notice_and_anew_after_a_lost_election() -> None:
    vacancies, vacancy = noticed()
    vacancies.notice(KEY, "replica", LATER)
    assert vacancy.noticed == BEGAN
    vacancies.lost(vacancy, LATER)
    assert vacancy.noticed == LATER
    assert not vacancies.has_turn(vacancy, 1, LATER)


def test_a_rank_waits_longer_while_there_are_more_vacancies() -> None:
    vacancies, vacancy = noticed()
    vacancies.look(vacancy)
    assert not vacancies.has_turn(vacancy, 1, BEGAN)
    alone = vacancy.due
    vacancies.notice(OTHER, "other", BEGAN)
    vacancies.look(vacancy)
    assert not vacancies.has_turn(vacancy, 1, BEGAN)
    assert alone is not None
    assert vacancy.due is not None
    assert vacancy.due > alone
    assert vacancies.has_turn(vacancy, 1, vacancy.due)


def test_a_handover_is_remembered_by_later_notices() -> None:
    vacancies, vacancy = noticed()
    assert not vacancy.handed_over
    vacancies.notice(KEY, "replica", LATER, handed_over=True)
    vacancies.notice(KEY, "replica", LATER)
    assert vacancy.handed_over


def test_only_what_is_due_is_examined() -> None:
    vacancies, vacancy = noticed()
    vacancies.notice(OTHER, "other", LATER)
    assert len(vacancies) == 2
    assert vacancies.due(BEGAN) == [vacancy]
    vacancies.look(vacancy)
    assert vacancies.next_due() == LATER
    assert vacancies.due(BEGAN) == []
