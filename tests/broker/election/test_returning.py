"""Broker 2 after a loss of power in all machines, on a ZooKeeper in memory (CORRECTNESS E2, E3, T11)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import queue_znodes
from strandline.adapters.zookeeper.layout.queue_znodes import ElectionNotice
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.state_changes.notices import NoticeReceiver
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, Offset
from strandline.ports import SetData
from strandline.vocabulary.metadata import IsrMember, LogCondition, LogStatement
from strandline.vocabulary.state_changes import ChangeKind
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import HOST, KEY, LIVE, NAME, settings, write
from tests.broker.support.seat import ME, Seat, led_by, seated
from tests.waiting import eventually

BEFORE = BrokerEpoch(15)
"""The life of broker 2 that power ended."""
RECORDS, COMMITTED = 3, 5
"""The remains of its log, and the HW in its checkpoint."""


@pytest.fixture
async def seat(tmp_path: Path) -> AsyncIterator[Seat]:
    """Broker 2 is back, with the start of the log that it had, and with all machines that are named alive."""
    boot = tmp_path / "boot"
    boot.write_text("that one")
    folder = DataFolder(tmp_path / "data", ME, boot, SYSTEM_FILES)
    manager = ReplicaManager(settings(broker_id=ME, data_dir=folder.path), folder, HOST)
    folder.begin_life(BEFORE)
    replica = manager.create(NAME, KEY, TopicConfig())
    await manager.anchoring.anchor(replica)
    write(replica, 5, *"abc")
    replica.raise_watermark(Offset(RECORDS))
    replica.watermark_known = Offset(COMMITTED)
    manager.close(clean=False)
    folder.close()
    (tmp_path / "data" / "clean_shutdown").unlink(missing_ok=True)
    async with seated(tmp_path) as found:
        alone(found)
        yield found


def alone(seat: Seat) -> None:
    seat.registration.live = {ME: LIVE[ME]}


def in_sync(*others: int) -> tuple[IsrMember, ...]:
    """Broker 2 in the life that ended, and others in theirs, which ended too."""
    return (IsrMember(ME, BEFORE), *(IsrMember(BrokerId(b), BrokerEpoch(b)) for b in others))


def statement(broker: int, end: int) -> LogStatement:
    life = LIVE[BrokerId(broker)].epoch
    return LogStatement(BrokerId(broker), life, LogCondition.UNSURE, 5, 0, end, 0)


async def said(seat: Seat) -> LogStatement:
    await eventually(lambda: any(s.broker == ME for s in seat.record.statements))
    return next(s for s in seat.record.statements if s.broker == ME)


async def test_the_only_member_leads_and_the_range_is_recorded(seat: Seat) -> None:
    """CORRECTNESS E2, E3: what is certain to be missing, and from where on more may be."""
    seat.write(replace(led_by(NO_BROKER, epoch=5), isr=in_sync()))
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() == 6)
    assert (seat.record.isr_ids, seat.record.lossy_epoch, seat.record.statements) == ((ME,), 6, ())
    (event,) = [e for e in seat.record.trail if e.command is ChangeKind.ELECT_LEADER]
    assert (event.unclean, event.first, event.end, event.lost) == (True, 3, 5, 2)
    assert event.reason == (
        "no broker led, and all in-sync replicas are back, none is sure to have everything, and this log is "
        "the longest; committed records 3 to 4 are missing; more may be missing from 5 on"
    )
    assert seat.replica.watermark_known == seat.replica.high_watermark == RECORDS


async def test_a_returning_member_states_its_log_and_waits_for_the_other(seat: Seat) -> None:
    """CORRECTNESS E2: the other one may be sure to have everything."""
    seat.write(replace(led_by(NO_BROKER, epoch=5), isr=in_sync(1)))
    seat.elector.vacant(seat.replica)
    mine = await said(seat)
    assert mine == LogStatement(ME, LIVE[ME].epoch, LogCondition.UNSURE, 5, 0, RECORDS, COMMITTED)
    await seat.looked(times=3)
    assert seat.leads_in() is None
    assert seat.record.isr == in_sync(1)


@pytest.mark.parametrize(("end", "leads"), [(RECORDS + 1, False), (RECORDS - 1, True)])
async def test_the_last_statement_leads_or_notifies_the_one_that_will(
    seat: Seat, end: int, leads: bool
) -> None:
    """The `isr` znode is not watched; only the notice reaches the other one at once."""
    await seat.coordination.ensure_path(znodes.elections(1))
    seat.registration.live = {b: LIVE[b] for b in (BrokerId(1), ME)}
    seat.write(replace(led_by(NO_BROKER, epoch=5), isr=in_sync(1), statements=(statement(1, end),)))
    seat.elector.vacant(seat.replica)
    if leads:
        await eventually(lambda: seat.leads_in() == 6)
        assert await seat.coordination.children(znodes.elections(1)) == []
        return
    await said(seat)
    (entry,) = await seat.coordination.children(znodes.elections(1))
    node = await seat.coordination.get(f"{znodes.elections(1)}/{entry}")
    assert [(n.key, n.leader_epoch) for n in queue_znodes.load_notices(node.data)] == [(KEY, 5)]
    await seat.looked(times=3)
    assert seat.leads_in() is None


async def test_a_claim_that_was_decided_on_statements_of_before_is_refused(seat: Seat) -> None:
    """CORRECTNESS I3: a statement that comes meanwhile is another version of `isr`."""
    await seat.coordination.ensure_path(znodes.elections(1))
    seat.write(replace(led_by(NO_BROKER, epoch=5), isr=in_sync()))
    taken, go_on = seat.coordination.hold(SetData)  # of /epoch
    seat.elector.vacant(seat.replica)
    await taken.wait()
    seat.registration.live = {b: LIVE[b] for b in (BrokerId(1), ME)}
    seat.write(replace(seat.record, statements=(*seat.record.statements, statement(1, RECORDS + 1))))
    go_on.set()
    await seat.looked(times=4)
    assert seat.leads_in() is None


async def test_an_operator_has_it_elected_by_a_notice(seat: Seat) -> None:
    """The other member is gone for good. The permission is for this epoch only."""
    await seat.coordination.ensure_path(znodes.elections(ME))
    notices = NoticeReceiver(seat.context, seat.elector.vacant, lambda _: None)
    await notices.open()
    running = seat.tasks.create_task(notices.run())
    seat.write(replace(led_by(NO_BROKER, epoch=5), isr=in_sync(1)))
    seat.elector.vacant(seat.replica)
    await said(seat)
    for epoch in (4, 5):
        assert seat.leads_in() is None
        notice = ElectionNotice(NAME.topic, KEY, LeaderEpoch(epoch), unclean=True)
        prefix = znodes.election_notice_prefix(ME)
        await seat.coordination.create(prefix, queue_znodes.dump_notices([notice]), sequential=True)
        await eventually(lambda: _no_notice(seat))
    await eventually(lambda: seat.leads_in() == 6)
    running.cancel()
    (event,) = [e for e in seat.record.trail if e.command is ChangeKind.ELECT_LEADER]
    assert event.reason.startswith("no broker led, and an operator asked for an unclean election; committed")


async def _no_notice(seat: Seat) -> bool:
    return await seat.coordination.children(znodes.elections(ME)) == []
