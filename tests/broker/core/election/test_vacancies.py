"""When a broker examines a partition without a leader."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.broker.core.election.traffic import BUSY_FIRST_S, LOT_MAX, TRAFFIC_S
from strandline.broker.core.election.vacancies import (
    BUSY_LOT_MAX,
    BUSY_S_MAX,
    LOST_STEP_PARTS,
    Vacancies,
    Vacancy,
)
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


def no_traffic(_replica: str) -> float:
    return float("-inf")


def noticed() -> tuple[Vacant, Vacancy[str]]:
    vacancies = Vacancies(STEP_S, no_traffic)
    vacancies.notice(KEY, "replica", BEGAN)
    (vacancy,) = vacancies.lot(BEGAN)
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
    assert vacancies.next_due(LATER) == (None if wanted == GONE else pytest.approx(wanted, abs=0.02))


def test_a_vacancy_that_is_noticed_while_it_is_looked_at_is_examined_again() -> None:
    """CORRECTNESS E8: the notice may be about something that the examination did not see."""
    vacancies, vacancy = noticed()
    vacancies.look(vacancy)
    vacancies.notice(KEY, "replica", LATER)
    vacancies.settle(vacancy)
    assert vacancies.lot(LATER) == [vacancy]


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
    assert vacancies.lot(BEGAN) == [vacancy]
    vacancies.look(vacancy)
    assert vacancies.next_due(LATER) == LATER
    assert vacancies.lot(BEGAN) == []


# --- lots -------------------------------------------------------------------------------------------


class Partitions:
    """Vacancies noticed at BEGAN, by name, and when each last had traffic."""

    def __init__(self, *names: str, **traffic_at: float) -> None:
        self.traffic_at = traffic_at
        self.vacancies: Vacant = Vacancies(STEP_S, lambda name: self.traffic_at.get(name, float("-inf")))
        for number, name in enumerate((*names, *traffic_at)):
            key = PartitionKey(KEY.topic_id, PartitionId(number))
            self.vacancies.notice(key, name, BEGAN)

    def lot(self, now: float = BEGAN) -> list[str]:
        """Its names; all of it ends."""
        lot = self.vacancies.lot(now)
        for each in lot:
            self.vacancies.look(each)
            self.vacancies.settle(each)
        return [each.replica for each in lot]


def test_busy_partitions_are_a_lot_of_their_own_before_all_idle_ones() -> None:
    """A client waits for their next acknowledgement, and for nothing of a thousand idle ones. The latest
    traffic comes first."""
    partitions = Partitions("idle", "other", busy=BEGAN - 1, busiest=BEGAN, once=BEGAN - TRAFFIC_S - 1)
    assert partitions.lot() == ["busiest", "busy"]
    assert partitions.lot() == ["idle", "other", "once"]
    assert partitions.lot() == []


def test_a_lot_is_bounded() -> None:
    idle = [f"idle {number}" for number in range(LOT_MAX + 1)]
    busy = {f"busy {number}": BEGAN for number in range(BUSY_LOT_MAX + 1)}
    partitions = Partitions(*idle, **busy)
    lots = [partitions.lot() for _ in range(4)]
    assert [len(lot) for lot in lots] == [BUSY_LOT_MAX, 1, LOT_MAX, 1]


def test_idle_partitions_wait_a_bounded_time_for_busy_ones_that_another_broker_has_to_win() -> None:
    partitions = Partitions("idle", busy=BEGAN)
    vacancies = partitions.vacancies
    (busy,) = vacancies.lot(BEGAN)
    vacancies.look(busy)
    assert not vacancies.has_turn(busy, 1, BEGAN)
    assert vacancies.lot(BEGAN) == []
    assert vacancies.next_due(BEGAN) == BEGAN + BUSY_FIRST_S
    assert partitions.lot(BEGAN + BUSY_FIRST_S) == ["idle"]


def test_idle_partitions_wait_no_longer_once_the_busy_ones_have_leaders() -> None:
    partitions = Partitions("idle", busy=BEGAN)
    (busy,) = partitions.vacancies.lot(BEGAN)
    partitions.vacancies.look(busy)
    assert not partitions.vacancies.has_turn(busy, 1, BEGAN)
    partitions.vacancies.notice(busy.key, "busy", BEGAN)  # its new leader says so
    assert partitions.lot() == ["busy"]
    assert partitions.vacancies.next_due(BEGAN) == BEGAN
    assert partitions.lot() == ["idle"]


def test_a_partition_is_busy_once_a_client_asks_for_it() -> None:
    partitions = Partitions("idle", "asked")
    partitions.traffic_at["asked"] = BEGAN
    assert partitions.lot() == ["asked"]


def test_a_busy_partition_without_a_leader_is_not_preferred_forever() -> None:
    partitions = Partitions("idle", busy=BEGAN + BUSY_S_MAX)
    assert partitions.lot(BEGAN + BUSY_S_MAX) == ["idle", "busy"]


def test_the_ranks_of_a_busy_partition_wait_for_busy_ones_alone() -> None:
    """The replica of the rank before it examines those first."""
    idle = [f"idle {number}" for number in range(LOT_MAX)]
    partitions, alone = Partitions(*idle, busy=BEGAN), Partitions(busy=BEGAN)
    dues = []
    for each in (partitions, alone):
        (busy,) = each.vacancies.lot(BEGAN)
        each.vacancies.look(busy)
        assert not each.vacancies.has_turn(busy, 1, BEGAN)
        dues.append(busy.due)
    assert dues[0] == dues[1]


def test_idle_partitions_that_this_broker_expects_to_win_come_first() -> None:
    """The others have a leader by then, and cost one examination instead of two."""
    vacancies = Vacancies(STEP_S, no_traffic)
    vacancies.notice(KEY, "of another", BEGAN, rank=1)
    vacancies.notice(OTHER, "mine", BEGAN, rank=0)
    assert [each.replica for each in vacancies.lot(BEGAN)] == ["mine", "of another"]
