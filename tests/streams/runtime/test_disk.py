"""The folder of a member's stores: what is in it, and what becomes of a member without it."""

from __future__ import annotations

import shutil
from functools import partial

from strandline.streams import Streams
from tests.streams.runtime.applications import SETTLE_S, Application, running, words
from tests.waiting import eventually


def stores(application: Application, slot: int) -> set[str]:
    """The names of the tasks with a store in this slot."""
    return {path.parent.name for path in application.folder.glob(f"{application.id}/slot-{slot}/*/lock")}


def has_just_its_stores(application: Application, member: Streams, slot: int) -> bool:
    return stores(application, slot) == {str(task) for task in running(member)}


async def test_stores_of_tasks_that_moved_away_are_removed(application: Application) -> None:
    """Those that run stay."""
    await application.create(4)
    first = await application.start(state_cleanup_delay_ms=300)
    await application.write(words(40))
    await application.counted(first)
    assert len(stores(application, 0)) == 4
    second = await application.start(state_cleanup_delay_ms=300)
    await eventually(lambda: len(running(first)) == len(running(second)) == 2, deadline_s=SETTLE_S)
    for member, slot in ((first, 0), (second, 1)):
        await eventually(partial(has_just_its_stores, application, member, slot), deadline_s=SETTLE_S)
    await application.write(words(40))
    await application.counted(first, second)


async def test_members_go_on_after_their_state_folder_was_removed(application: Application) -> None:
    """The next member has the slot of the first one, which then learns a task that the next one has open."""
    await application.create(2)
    first = await application.start()
    await application.write(words(20))
    await application.counted(first)
    shutil.rmtree(application.folder)
    second = await application.start()
    await eventually(lambda: len(running(first)) == len(running(second)) == 1, deadline_s=SETTLE_S)
    await application.write(words(20))
    await application.counted(first, second)
    assert await second.leave()
    await application.write(words(20))
    await application.counted(first)
    assert stores(application, 1), "what the first one has restored since is in a slot of its own"
