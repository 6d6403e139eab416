"""A cluster with an authorizer, in memory and on virtual time. A test names its callers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from strandline.adapters.codecs.groups import FIND_COORDINATOR, OFFSET_COMMIT
from strandline.adapters.codecs.transactions import FIND_TRANSACTION_COORDINATOR, INIT_TRANSACTIONS
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.wire.header import RequestHeader
from strandline.broker.process import Broker
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Caller, Method
from strandline.security.acls import AclBinding, AclFilter
from strandline.security.principal import Principal
from strandline.simulation.cluster import CONTROLLER_PORT, KAFKA_PORT
from strandline.testing import SimulatedCluster
from strandline.vocabulary.groups import CommittedOffset, OffsetCommit
from strandline.vocabulary.transactions import InitTransactions
from tests.integration.security.support.cases import GROUP, TOPIC, TRANSACTIONAL_ID, Case

ROOT: Final = Principal("root")
SECURE: Final = {"authorizer": "acl", "super_users": str(ROOT)}
KAFKA_HOST: Final = "192.0.2.1"
"""The address of Kafka clients, whose requests come from no connection."""
CALL_S: Final = 5.0


def secure_cluster(seed: int = 1, brokers: int = 1, **further: Any) -> SimulatedCluster:
    """`further` settings of brokers."""
    settings = {
        **SECURE,
        **further,
        "kafka_port": KAFKA_PORT,
        "offsets_topic_partitions": 1,
        "transaction_state_topic_partitions": 1,
    }
    return SimulatedCluster(seed=seed, brokers=brokers, broker_settings=settings, controller_settings=SECURE)


class Stage:
    """Use it within `cluster.run`. Its calls come from the test's process."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self._transport = cluster.host.transport(None)

    @property
    def broker(self) -> Broker:
        return self.cluster._now.cluster.running[0]

    @property
    def controller(self) -> str:
        (machine,) = self.cluster._now.cluster.controller_machines
        return f"{machine.host}:{CONTROLLER_PORT}"

    @contextmanager
    def calls_by(self, principal: Principal) -> Iterator[None]:
        """Calls that begin within it are this principal's."""
        life = self.cluster._now.test.life
        before, life.principal = life.principal, principal
        try:
            yield
        finally:
            life.principal = before

    # --- what there is -----------------------------------------------------------------------

    async def prepare(self) -> None:
        """A topic, and a transactional id."""
        with self.calls_by(ROOT):
            await self.cluster.create_topic(TOPIC, config={"retention.ms": "3600000"})

        async def known() -> bool:
            with self.calls_by(ROOT):
                await self.call(FIND_TRANSACTION_COORDINATOR, TRANSACTIONAL_ID)
                answer = await self.call(INIT_TRANSACTIONS, InitTransactions(TRANSACTIONAL_ID, 60_000))
            return not isinstance(answer, StrandlineError)

        await self.cluster.run_until(known, what="the transactional id is known")  # type: ignore[arg-type]

    async def commit(self) -> None:
        """A group without members, which has an offset."""
        offset = {TopicPartition(TOPIC, 0): CommittedOffset(0)}

        async def committed() -> bool:
            with self.calls_by(ROOT):
                await self.call(FIND_COORDINATOR, GROUP)
                answer = await self.call(OFFSET_COMMIT, OffsetCommit(GROUP, "", -1, offset))
            return not isinstance(answer, StrandlineError)

        # mypy does not solve the union of a value and an awaitable of it
        await self.cluster.run_until(committed, what="the group has an offset")  # type: ignore[arg-type]

    async def only(self, bindings: Iterable[AclBinding]) -> None:
        """These are all ACLs, and the broker knows them."""
        wanted = sorted(set(bindings))
        with self.calls_by(ROOT):
            async with self.cluster.admin() as admin:
                await admin.delete_acls([AclFilter()])
                await self._known([])  # it may have had the same ones before
                if wanted:
                    await admin.create_acls(wanted)
        await self._known(wanted)

    async def _known(self, wanted: list[AclBinding]) -> None:
        await self.cluster.run_until(
            lambda: sorted(self.broker.access.authorizer.acls or ()) == wanted, what="the broker has the ACLs"
        )

    # --- calls -------------------------------------------------------------------------------

    async def outcome(self, case: Case, principal: Principal) -> Any:
        """The answer to a case's request, or the error with which it is refused."""
        if not isinstance(case.what, Method):
            return await self.kafka(case.what, case.request, principal, version=case.version)
        with self.calls_by(principal):
            return await self.call(case.what, case.request)

    async def call(self, method: Method[Any, Any], request: Any) -> Any:
        address = self.controller if ".Admin/" in method.path else self.cluster.bootstrap.partition(",")[0]
        try:
            if method.path.rpartition("/")[2] in ("Produce", "Fetch", "StateChanges"):
                return await self._of_stream(address, method, request)
            return await self._transport.call(address, method, request, timeout_s=CALL_S)
        except StrandlineError as error:
            return error

    async def _of_stream(self, address: str, method: Method[Any, Any], request: Any) -> Any:
        stream = await self._transport.open(address, method, timeout_s=CALL_S)
        try:
            await stream.write(request)
            return await stream.read()
        finally:
            stream.close()

    async def kafka(
        self,
        wire: Any,
        request: Any,
        principal: Principal,
        host: str = KAFKA_HOST,
        version: int | None = None,
    ) -> Any:
        """The answer of the broker's own handler, in the last version unless another one is given."""
        answers: list[Any] = []

        async def reply(answer: Any) -> None:
            answers.append(answer)

        api = self.broker._kafka.router._apis[wire.key]
        caller = Caller(f"kafka:{host}:1", host, principal=principal)
        header = RequestHeader(wire.key, wire.last if version is None else version, 1, "test")
        await api.handle(request, Call(header, caller), reply)
        (answer,) = answers
        return answer
