"""A command that follows what the cluster does: what it says, and when it gives up."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from strandline.cli.shell.following import STUCK_S, followed
from strandline.errors import InvalidRequest, NotController
from strandline.vocabulary.admin import BalanceDescription
from strandline.vocabulary.metadata import BalanceState
from tests.hand_clock import HandClock

ENDED = BalanceDescription(BalanceState.COMPLETED, moves=9, done=9)


def running(done: int, *problems: str, skipped: int = 0) -> BalanceDescription:
    because = ("t-0 was deleted",) * skipped
    return BalanceDescription(
        BalanceState.RUNNING, moves=9, done=done, skipped=skipped, problems=problems, skipped_because=because
    )


class Cluster:
    """Gives these answers, one after the other, and the last one again and again."""

    def __init__(self, *answers: BalanceDescription | Exception) -> None:
        self.clock = HandClock()
        self.lines: list[str] = []
        self._answers = list(answers)

    async def follow(self) -> BalanceDescription:
        return await followed(
            self._look,
            "the balance",
            is_over=lambda answer: answer.state is not BalanceState.RUNNING,
            line=lambda answer: f"{answer.done} done",
            note=self.lines.append,
            look_again_s=1.0,
            clock=self.clock,
        )

    async def _look(self) -> BalanceDescription:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_each_step_is_said_once_and_the_end_is_returned() -> None:
    cluster = Cluster(running(1), running(1), running(2), ENDED)
    assert await cluster.follow() == ENDED
    assert cluster.lines == ["1 done", "2 done"]


async def test_problems_without_progress_end_it_after_a_while() -> None:
    cluster = Cluster(running(1, "t-1 waits", "t-2 waits"))
    began = cluster.clock.now_s
    assert (await cluster.follow()).problems
    assert cluster.clock.now_s - began == STUCK_S
    assert "waiting: t-1 waits, and 1 more" in cluster.lines


@pytest.mark.parametrize(
    "answers",
    [
        [running(1, skipped=1)] * 90,
        [running(done, "t-1 waits") for done in range(9) for _ in range(int(STUCK_S) - 1)],
    ],
    ids=["a move was skipped", "others get on"],
)
async def test_what_gets_on_or_is_done_with_does_not(answers: Sequence[BalanceDescription]) -> None:
    """A move that was skipped is no reason to leave the others: one of them may take long."""
    cluster = Cluster(*answers, ENDED)
    assert await cluster.follow() == ENDED
    assert not any(one == other for one, other in pairwise(cluster.lines))


async def test_an_answer_that_is_missing_is_asked_for_again_unless_it_never_comes() -> None:
    assert await Cluster(NotController("no"), running(1), ENDED).follow() == ENDED
    with pytest.raises(NotController):
        await Cluster(NotController("no")).follow()
    with pytest.raises(InvalidRequest):
        await Cluster(InvalidRequest("no"), ENDED).follow()
