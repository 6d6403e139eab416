"""What very many open transactions do to a cluster: memory, refusals, other producers, failover, timeouts.

    python -m strandline_lab.bench.kafka.open_transactions [COUNT [TIMEOUT_S]]

Opens COUNT transactions by Kafka's first protocol, then writes a record of each into one of two logs, kills a
coordinator, and waits until all are aborted by their timeout. Prints a line for each step.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from strandline import Admin, LocalCluster, Producer
from strandline.adapters.system.clock import SystemClock
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.apis import ApiWire
from strandline.broker.kafka.wire.coordinator import TRANSACTION, FindCoordinatorRequest
from strandline.broker.kafka.wire.produce import PartitionRecords, ProduceRequest
from strandline.broker.kafka.wire.producer_id import InitProducerIdRequest
from strandline.broker.kafka.wire.topics import OfTopic, each_partition
from strandline.broker.kafka.wire.transactions.producers import AddPartitionsRequest, PartitionsOfTransaction
from strandline.errors import ErrorCode, StrandlineError
from strandline.records import pack
from strandline.vocabulary.transactions import TransactionState
from strandline_lab.bench.report import resident_mib
from strandline_lab.bench.scale.processes import BROKERS, running
from strandline_lab.conformance.link import Link, NoAnswer
from strandline_lab.simulation.kafka.messages import answer_in, frame

COUNT: Final = 100_000
TIMEOUT_S: Final = 900
"""The longest that brokers allow by default: all are open before the first one ends."""
TOPIC: Final = "open"
LOGS: Final = 2
"""Each takes up to 50,000 open transactions."""
BEYOND: Final = 500
"""Transactions whose records are sent to full logs."""
ABORTED: Final = TransactionState.COMPLETE_ABORT
OTHERS: Final = "others"
AT_ONCE: Final = 48
ANSWER_S: Final = 30.0
KEYS_AT_ONCE: Final = 1_000
FIND_VERSION, INIT_VERSION, ADD_VERSION, PRODUCE_VERSION = 4, 4, 3, 9
ACKS_ALL: Final = -1
SOUND: Final = (int(ErrorCode.NONE),)
AGAIN: Final = (
    int(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    int(ErrorCode.NOT_COORDINATOR),
    int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
)
SAMPLES: Final = 100
POLL_S: Final = 1.0
SAY_S: Final = 30.0
TRIES: Final = 60
FAILOVER_S_MAX: Final = 600.0


class Asking:
    """Connections to all brokers, each with one request at a time."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._free: dict[str, asyncio.Queue[Link]] = {}
        for address in addresses:
            host, _, port = address.rpartition(":")
            queue: asyncio.Queue[Link] = asyncio.Queue()
            self._free[address] = queue
            for _ in range(AT_ONCE):
                queue.put_nowait(Link(host, int(port)))

    async def ask(self, address: str, wire: ApiWire[Any, Any], request: Any, version: int) -> Any:
        """The answer; None if none came."""
        free = self._free[address]
        link = await free.get()
        try:
            whole = frame(wire, version, request, 1, "open")
            answer = await link.ask(whole[4:], ANSWER_S)
        finally:
            free.put_nowait(link)
        return None if isinstance(answer, NoAnswer) else answer_in(wire, version, answer)

    async def close(self) -> None:
        for queue in self._free.values():
            while not queue.empty():
                await queue.get_nowait().close()


class Transactions:
    """The open transactions, each with its id, coordinator and identity."""

    def __init__(self, cluster: LocalCluster, asking: Asking, timeout_s: int) -> None:
        self._cluster = cluster
        self._asking = asking
        self._timeout_ms = timeout_s * 1_000
        self.coordinators: dict[str, str] = {}
        self.identities: dict[str, tuple[int, int]] = {}
        self.leaders: dict[int, str] = {}
        self.errors: Counter[str] = Counter()

    async def find(self, names: Sequence[str]) -> None:
        """Finds the coordinators of these ids."""
        address = self._cluster.kafka_bootstrap.split(",")[0]
        for first in range(0, len(names), KEYS_AT_ONCE):
            missing = list(names[first : first + KEYS_AT_ONCE])
            while missing:
                request = FindCoordinatorRequest(tuple(missing), TRANSACTION)
                answer = await self._asking.ask(address, apis.FIND_COORDINATOR, request, FIND_VERSION)
                for each in () if answer is None else answer.found:
                    if not each.error:
                        self.coordinators[each.key] = f"{each.host}:{each.port}"
                missing = [name for name in missing if name not in self.coordinators]
                if missing:
                    await asyncio.sleep(POLL_S)

    async def open(self, name: str, partition: int) -> None:
        """Initializes the producer, and adds the partition."""
        address = self.coordinators[name]
        begin = InitProducerIdRequest(name, self._timeout_ms)
        answer = await self._repeated(
            "InitProducerId", address, apis.INIT_PRODUCER_ID, begin, INIT_VERSION, lambda found: found.error
        )
        if answer is None:
            return
        identity = self.identities[name] = answer.producer_id, answer.producer_epoch
        topic = OfTopic(TOPIC, (partition,))
        add = AddPartitionsRequest((PartitionsOfTransaction(name, *identity, (topic,)),))
        await self._repeated(
            "AddPartitionsToTxn", address, apis.ADD_PARTITIONS_TO_TXN, add, ADD_VERSION,
            lambda found: next(each.error for _, each in each_partition(found.results[0].topics)),
        )  # fmt: skip

    async def write(self, name: str, partition: int) -> None:
        """Sends one record of the transaction."""
        identity = self.identities.get(name)
        if identity is None:
            return
        packed = pack([(None, name.encode(), (), SystemClock().wall_ms())])
        batch = packed.seal(
            producer_id=identity[0], producer_epoch=identity[1], base_sequence=0, transactional=True
        )
        topic = OfTopic(TOPIC, (PartitionRecords(partition, memoryview(batch)),))
        request = ProduceRequest(ACKS_ALL, 30_000, (topic,), name)
        await self._repeated(
            "Produce", self.leaders[partition], apis.PRODUCE, request, PRODUCE_VERSION,
            lambda found: next(each.error for _, each in each_partition(found.topics)),
        )  # fmt: skip

    async def _repeated(
        self, what: str, address: str, wire: ApiWire[Any, Any], request: Any, version: int,
        error_of: Callable[[Any], int],
    ) -> Any:  # fmt: skip
        """The answer; None after an error, which is counted."""
        error: int | None = None
        for _ in range(TRIES):
            answer = await self._asking.ask(address, wire, request, version)
            error = None if answer is None else error_of(answer)
            if error in SOUND:
                return answer
            if error is not None and error not in AGAIN:
                break
            await asyncio.sleep(POLL_S)
        said = "no answer" if error is None else ErrorCode(error).name
        self.errors[f"{what}: {said}"] += 1
        return None


def say(what: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {what}\n")
    sys.stdout.flush()


async def for_each(names: Sequence[str], work: Callable[[str, int], Awaitable[None]]) -> float:
    """Runs the work for each name and its partition, some at a time. Returns the seconds that it took."""
    left = iter(list(enumerate(names)))
    began = time.monotonic()

    async def some() -> None:
        for number, name in left:
            await work(name, number % LOGS)
            if number % 10_000 == 9_999:
                say(f"  {number + 1:,} after {time.monotonic() - began:.0f} s")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE * BROKERS):
            tasks.create_task(some())
    return time.monotonic() - began


def memory(cluster: LocalCluster) -> str:
    brokers = [each for each in cluster.members() if each.kind == "broker" and each.pid is not None]
    return ", ".join(f"{resident_mib(each.pid or 0):.0f}" for each in brokers) + " MiB"


async def others(cluster: LocalCluster, numbers: itertools.count[int]) -> str:
    """How long other producers wait: for single records, and for transactions of one record."""

    def spread(times: list[float]) -> str:
        times.sort()
        return f"p50 {times[len(times) // 2] * 1e3:.0f} ms, p99 {times[len(times) * 99 // 100] * 1e3:.0f} ms"

    plain: list[float] = []
    whole: list[float] = []
    async with (
        Producer(cluster.bootstrap) as producer,
        Producer(cluster.bootstrap, transactional_id=f"other-{next(numbers)}") as transactional,
    ):
        for number in range(SAMPLES + 10):
            began = time.monotonic()
            _ = await producer.send_and_wait(OTHERS, b"x")
            between = time.monotonic()
            async with transactional.transaction():
                _ = await transactional.send(OTHERS, b"x")
            if number >= 10:
                plain.append(between - began)
                whole.append(time.monotonic() - between)
    return f"a record {spread(plain)}; a transaction {spread(whole)}"


async def listed(admin: Admin) -> Counter[TransactionState] | None:
    """The transactions of the measurement by state; None while a coordinator does not answer."""
    try:
        found = await admin.list_transactions()
    except StrandlineError as error:
        say(f"  not listed: {type(error).__name__}: {str(error)[:150]}")
        return None
    return Counter(each.state for each in found if each.transactional_id.startswith("open-"))


async def until(admin: Admin, done: Callable[[Counter[TransactionState]], bool], seconds: float) -> float:
    """Seconds until their states are as wanted, or until it has waited for as long."""
    began = time.monotonic()
    said_s = 0.0
    while (waited_s := time.monotonic() - began) < seconds:
        states = await listed(admin)
        if states is not None and done(states):
            break
        if states is not None and waited_s >= said_s:
            said_s = waited_s + SAY_S
            say("  " + ", ".join(f"{each.value} {number:,}" for each, number in states.items()))
        await asyncio.sleep(POLL_S)
    return time.monotonic() - began


async def measure(count: int, timeout_s: int) -> None:
    """Does all steps, and prints what each one took."""
    numbers = itertools.count()
    names = [f"open-{number}" for number in range(count)]
    async with running(kafka=True) as cluster, Admin(cluster.bootstrap, request_timeout_ms=60_000) as admin:
        await admin.create_topic(TOPIC, partitions=LOGS, replication_factor=BROKERS)
        await admin.create_topic(OTHERS, partitions=1, replication_factor=BROKERS)
        addresses = cluster.kafka_bootstrap.split(",")
        asking = Asking(addresses)
        transactions = Transactions(cluster, asking, timeout_s)
        await transactions.find(names[:1])
        say(f"others alone: {await others(cluster, numbers)}; brokers {memory(cluster)}")
        await transactions.find(names)
        took = await for_each(names, transactions.open)
        say(f"{count:,} opened in {took:.0f} s; brokers {memory(cluster)}; {dict(transactions.errors)}")
        say(f"others: {await others(cluster, numbers)}")
        (topic,) = (await admin.metadata([TOPIC])).topics
        by_id = dict(zip(cluster.broker_ids, addresses, strict=True))
        transactions.leaders = {each.partition: by_id[each.leader] for each in topic.partitions}
        took = await for_each(names, transactions.write)
        say(f"records written in {took:.0f} s; brokers {memory(cluster)}; {dict(transactions.errors)}")
        beyond = [f"open-more-{number}" for number in range(BEYOND)]
        await transactions.find(beyond)
        await for_each(beyond, transactions.open)
        await for_each(beyond, transactions.write)
        say(f"{BEYOND} beyond: {dict(transactions.errors)}")
        say(f"others: {await others(cluster, numbers)}")
        await asking.close()
        await fail_over(cluster, admin, len(transactions.identities))
        say(f"others: {await others(cluster, numbers)}; brokers {memory(cluster)}")
        count = len(transactions.identities)
        took = await until(admin, lambda states: states[ABORTED] >= count, 2 * timeout_s)
        say(f"all aborted after {took:.0f} s more; brokers {memory(cluster)}")
        say(f"others: {await others(cluster, numbers)}")


async def fail_over(cluster: LocalCluster, admin: Admin, count: int) -> None:
    """Kills a broker with a third of all transactions, and starts it again."""
    victim = cluster.broker_ids[0]
    say(f"killing broker {victim}, with {count:,} transactions in all")
    await cluster.kill_broker(victim)
    took = await until(admin, lambda states: states.total() >= count, FAILOVER_S_MAX)
    say(f"the coordinators had all transactions again after {took:.1f} s")
    await cluster.start_broker(victim)
    say(f"broker {victim} is back")


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    asyncio.run(measure(*(given + [COUNT, TIMEOUT_S][len(given) :])))
