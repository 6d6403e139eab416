"""`strandline log trace`: the way of a record, from the logs of brokers that run."""

from __future__ import annotations

import pytest

from strandline import Producer
from tests.conftest import ClusterFactory
from tests.strandline.cli.support.shell import Shell
from tests.waiting import eventually

pytestmark = pytest.mark.slow

EVERY = 10


async def test_the_way_of_a_record_is_shown_for_people_and_for_programs(make_cluster: ClusterFactory) -> None:
    cluster = await make_cluster(brokers=3, broker_settings={"trace_every": EVERY})
    shell = Shell(cluster)
    topic = await shell.topic("tides")
    logs = [str(cluster.log_path(broker)) for broker in cluster.broker_ids]
    nothing = await shell("log", "trace", topic, *logs)
    assert (nothing.status, f"no step of {topic}-0" in nothing.err) == (1, True)
    async with Producer(cluster.bootstrap) as producer:
        for number in range(EVERY + 1):
            await producer.send_and_wait(topic, b"%d" % number)

    async def known_everywhere() -> bool:
        """Followers learn last that it is committed, with the next records or after a moment."""
        steps = await shell.objects("log", "trace", topic, *logs, "--offset", str(EVERY))
        return [step["step"] for step in steps].count("committed") == 3

    await eventually(known_everywhere, deadline_s=30, what="both followers know that it is committed")
    steps = await shell.objects("log", "trace", topic, *logs)
    assert {step["offset"] for step in steps} == {EVERY}, "the last one"
    assert len(steps) == 4 + 2 * 4
    times = [step["at_us"] for step in steps]
    assert times == sorted(times)
    (leader,) = {step["broker"] for step in steps if step["step"] == "received"}
    for follower in set(cluster.broker_ids) - {leader}:
        at = {
            step["step"]: step["at_us"]
            for step in steps
            if follower in (step["broker"], step.get("follower"))
        }
        assert at["sent"] <= at["stored"] <= at["replicated"] <= at["committed"]

    text = "".join(cluster.log_path(broker).read_text() for broker in cluster.broker_ids)
    ended = await shell("log", "trace", topic, "-", "--offset", "0", stdin=text.encode())
    assert ended.status == 0, ended.err
    shown = ended.out.decode()
    assert f"{topic}-0 offset 0, epoch " in shown
    assert "acks all" in shown
    assert "to broker " in shown
