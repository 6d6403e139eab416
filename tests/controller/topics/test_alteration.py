"""Altered configs whose writes lose their answers."""

from __future__ import annotations

import pytest

from strandline.ports import Coordination
from strandline.vocabulary.admin import AlterTopic, NewTopic
from tests.controller.support.running import Activate, Running
from tests.controller.support.unreliable import Unreliable
from tests.controller.support.znodes_seen import requests


def lose(controller: Running, when: str) -> None:
    """Its next write loses its answer, before or after it was carried out."""
    active = controller.activity.active
    assert active is not None
    fenced = active.term.session
    unreliable: Coordination = Unreliable(fenced._session, [when], reads_lost=0)  # type: ignore[assignment]  # by __getattr__
    fenced._session = unreliable


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_config_that_stays_is_announced_once_although_the_answer_is_lost(
    active: Activate, when: str
) -> None:
    """CORRECTNESS E9, Q5: the requests of a write that never happened are not recorded as made. The config
    looks the same in both cases."""
    async with active([1]) as (session, controller, _):
        (made,) = await controller.admin.create_topics([NewTopic("t", 0, assignments=((1,),))])
        assert made.error is None
        same = AlterTopic("t", {"segment.bytes": "1024"})
        for lost in (None, when):
            if lost is not None:
                lose(controller, lost)
            await controller.admin.alter_topic(same)
        reasons = [change.reason for change in await requests(session, 1)]
        assert reasons == ["topic created", "config altered", "config altered"]
