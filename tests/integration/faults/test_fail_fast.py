"""A process that meets a defect of its own ends at once, and others take over (Kafka's design V2, goal 2)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import strandline.broker as broker_package
import strandline.controller as controller_package
from strandline import Admin, NewTopic
from strandline.errors import StrandlineError
from tests.integration.support.harness import Harness
from tests.integration.support.placements import elect
from tests.integration.support.workload import workload
from tests.waiting import eventually

LINE = "defect: this process ends"

WHERE_LEADING = {
    "produce.append": "call /strandline.v1.Log/Produce",
    "leadership.timer": "Exception in callback",
}
"""For each defect point of a leader: its place in the log. A handler of gRPC, and a timer."""


def test_every_defect_point_is_used() -> None:
    """An unused point would claim a place that is not tested."""
    sources = (
        path.read_text()
        for package in (broker_package, controller_package)
        for path in Path(package.__path__[0]).rglob("*.py")
    )
    found = {name for source in sources for name in re.findall(r'\bdefect_point\("([^"]+)"\)', source)}
    assert found == {*WHERE_LEADING, "session.reconcile", "controller.create_topics"}


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("point", WHERE_LEADING)
async def test_a_leader_with_a_defect_ends_and_another_one_leads(harness: Harness, point: str) -> None:
    """Wherever the defect shows: its values are in the log, the registration goes with the process, nothing
    that was acknowledged is lost, and the end is no clean one."""
    topic = await harness.create_topic([(1, 2, 3)])
    printed = harness.log_text(1)
    await harness.cluster.stop_broker(1)
    await harness.cluster.start_broker(1, crash_points=f"{point}:5")
    await topic.isr_is(1, 2, 3)
    await elect(topic)
    epoch = (await topic.state()).leader_epoch
    async with workload(topic, producers=1) as load:
        await ended(harness, 1)
        state = await topic.led_above(epoch)
        assert state.leader in (2, 3)
        assert 1 not in await harness.live()
        await load.progress()
        assert_said(harness.log_text(1).removeprefix(printed), WHERE_LEADING[point], point)
        assert not (harness.cluster.data_dir(1) / "clean_shutdown").exists()
        await harness.heal()
        await topic.settled()
        await load.judge()


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_broker_with_a_defect_in_a_task_ends(harness: Harness) -> None:
    """A task ends its group, and that the next one, up to the process."""
    printed = harness.log_text(1)
    await harness.cluster.stop_broker(1)
    await harness.cluster.start_broker(1, wait_s=None, crash_points="session.reconcile")
    await ended(harness, 1)
    assert 1 not in await harness.live()
    assert_said(harness.log_text(1).removeprefix(printed), "a task of the broker", "session.reconcile")


async def ended(harness: Harness, broker: int) -> None:
    await eventually(lambda: not harness.running(broker), deadline_s=30, what=f"broker {broker} ends")


def assert_said(printed: str, where: str, point: str) -> None:
    (line,) = [line for line in printed.splitlines() if LINE in line]
    assert where in line
    assert f"defect point {point} is armed" in line


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_controller_with_a_defect_ends(harness: Harness) -> None:
    """Its claim goes with it, so that the next one may serve at once."""
    (controller,) = harness.cluster.controller_ids
    await harness.cluster.stop_controller(controller)
    await harness.cluster.start_controller(controller, crash_points="controller.create_topics")
    async with Admin(harness.cluster.bootstrap, request_timeout_ms=500) as admin:
        with pytest.raises(StrandlineError):
            await admin.create_topics([NewTopic("never", 1)])
    await eventually(
        lambda: not harness.running(controller, "controller"), deadline_s=30, what="the controller ends"
    )
    log = harness.cluster.log_path(1).with_name(f"controller-{controller}.log")
    assert_said(log.read_text(), "call /strandline.v1.Admin/CreateTopics", "controller.create_topics")
