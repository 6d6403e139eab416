"""A controller's metrics: only the active one reports the cluster, each one its own state."""

from __future__ import annotations

from pathlib import Path

from strandline.adapters.system.clock import SystemClock
from strandline.local.layout import MemberFile
from strandline.local.ports import free_ports
from strandline.local.service import Service
from strandline.vocabulary.admin import NewTopic
from tests.conftest import SessionFactory
from tests.controller.support.metrics import Read, read
from tests.controller.support.running import process, running
from tests.controller.support.znodes_seen import register
from tests.scraping import scraped
from tests.waiting import eventually

CLOCK = SystemClock()
SETTINGS_REFUSED = 2


async def test_the_active_one_reports_the_cluster_and_every_brokers_queue(
    zookeeper: str, open_session: SessionFactory
) -> None:
    """Brokers that are registered and do nothing: there is no leader, and the requests for them grow old. One
    of them is gone: its queue is reported nevertheless (docs/run/metrics.md, "What to alarm on")."""
    session, dying = await open_session(), await open_session()
    await register(session, [1, 2])
    await register(dying, [3])
    async with running(zookeeper, reconcile_ms=50) as controller:
        await controller.wait_active()
        topic = NewTopic("t", 0, assignments=((1, 2, 3), (2, 3, 1)))
        (outcome,) = await controller.admin.create_topics([topic])
        assert outcome.error is None
        await dying.close()

        def seen() -> Read | None:
            found = read(controller)
            return found if found("strandline_broker_alive", "3") == 0 else None

        found = await eventually(seen)
        assert found is not None
        assert found("kafka_controller_kafkacontroller_activecontrollercount") == 1
        assert found("kafka_controller_kafkacontroller_globaltopiccount") == 1
        assert found("kafka_controller_kafkacontroller_globalpartitioncount") == 2
        assert found("kafka_controller_kafkacontroller_offlinepartitionscount") == 2
        assert found("kafka_controller_kafkacontroller_activebrokercount") == 2
        assert found("kafka_controller_kafkacontroller_fencedbrokercount") == 1
        assert found("strandline_refused_mutations_total") == 0
        for broker in ("1", "2", "3"):
            waiting = found("strandline_state_queue_requests", broker)
            assert waiting is not None
            assert waiting >= 2
        age_s = found("strandline_state_queue_oldest_age_seconds", "3")
        assert age_s is not None
        assert age_s > 0

        def older() -> bool:
            now_s = read(controller)("strandline_state_queue_oldest_age_seconds", "3")
            return now_s is not None and now_s > age_s

        await eventually(older)
        assert found("strandline_zookeeper_connected") == 1
        assert found("strandline_zookeeper_watches") == 0  # docs/design.md: it sets none


async def test_a_standby_reports_only_itself(zookeeper: str) -> None:
    """Two reports of the cluster would double its sums."""
    async with running(zookeeper, 1) as active:
        await active.wait_active()
        async with running(zookeeper, 2) as standby:
            await standby.wait_knows(1)
            found = read(standby)
            assert found("kafka_controller_kafkacontroller_activecontrollercount") == 0
            assert found("kafka_controller_kafkacontroller_offlinepartitionscount") is None
            assert found("strandline_zookeeper_connected") == 1


async def test_calls_are_timed_by_their_names(zookeeper: str, tmp_path: Path) -> None:
    """RequestMetrics' TotalTimeMs of each kind of request; health checks are none."""
    (port,) = free_ports(1)
    async with process(1, zookeeper, tmp_path, metrics_port=port) as controller:
        await controller.describe()
        await controller.describe()
        total = "kafka_network_requestmetrics_totaltimems"
        found = await scraped(port, lambda s: s(f"{total}_count", request="DescribeCluster") == 2)
        assert found(f"{total}_sum", request="DescribeCluster") > 0
        assert found.labels(f"{total}_count", "request") == {"DescribeCluster"}


async def test_a_port_for_metrics_that_is_taken_ends_the_start(zookeeper: str, tmp_path: Path) -> None:
    """A wrong setting ends the start with a sentence that names it."""
    (port,) = free_ports(1)
    async with process(1, zookeeper, tmp_path, metrics_port=port):
        member = MemberFile(id=2, port=free_ports(1)[0])
        fixed = {"zookeeper": zookeeper, "metrics_port": port}
        second = Service("controller", member, fixed, log_path=tmp_path / "second.log", detached=False)
        second.start()
        assert second.process is not None
        await second.process.wait(20)
        assert second.process.exit_status == SETTINGS_REFUSED
        said = second.log_path.read_text()
        assert f"metrics_port = {port}" in said
        assert "STRANDLINE_METRICS_PORT" in said
