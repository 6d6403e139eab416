"""The leader's side of KIP-890: before it appends a producer's first batch of a transaction, it asks the
coordinator whether the partition is in it, or has it added.

Without that, a batch that comes late would begin a transaction that nothing ends.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from strandline.broker.coordinators.finding import CoordinatorFinder
from strandline.broker.transactions.partition import TransactionPartition
from strandline.broker.transactions.peer_calls import PeerCalls, Send
from strandline.config.limits import ADMISSIONS_PER_CALL_MAX
from strandline.errors import ConcurrentTransactions, CoordinatorNotAvailable, StrandlineError
from strandline.ids import BrokerId, TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import AddPartitions, Admitted, PartitionResults

RETRY_WINDOW_S: Final = 1.0
"""No try begins later than this after the first one: then the client asks again."""
RETRY_S: Final = 0.005
"""The pause after the first try; it doubles up to RETRY_S_MAX. With transactions v2 a client may write while
the markers of its last transaction are on their way, which takes a few milliseconds."""
RETRY_S_MAX: Final = 0.05
ANSWER_SLACK_S: Final = 1.0
"""A coordinator may need `transaction_append_timeout_ms`, and its answer this time."""


class TransactionAdmission:
    """`run` owns the calls to other brokers."""

    def __init__(
        self,
        me: BrokerId,
        finder: CoordinatorFinder[TransactionPartition],
        send: Send[AddPartitions, Admitted],
        clock: Clock,
    ) -> None:
        self._me = me
        self._finder = finder
        self._clock = clock
        self._calls = PeerCalls(
            send, weight_max=ADMISSIONS_PER_CALL_MAX, weigh=lambda question: max(1, len(question.partitions))
        )

    async def run(self) -> None:
        """Makes calls until cancelled."""
        await self._calls.run()

    async def admit(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        add: bool,
    ) -> PartitionResults:
        """For each partition None if the producer may append to it in its open transaction, or why not.
        `add`: adds those that are not in it (transactions v2); else they have to be in it already (v1).

        Asks again for a while if it helps. That does no harm, also if an earlier answer was lost: a question
        changes nothing twice, and with `add` each transaction has an epoch of its own.
        """
        question = AddPartitions(transactional_id, producer, tuple(partitions), verify_only=not add)
        clock = self._clock
        ends_at, pause_s = clock.monotonic() + RETRY_WINDOW_S, RETRY_S
        while True:
            answer = await self._ask(question)
            if not isinstance(answer, StrandlineError):
                return answer
            if not answer.retriable or clock.monotonic() + pause_s > ends_at:
                return dict.fromkeys(partitions, _final(transactional_id, answer))
            await clock.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_S_MAX)

    async def _ask(self, question: AddPartitions) -> Admitted:
        try:
            coordinator = await self._finder.leader(question.transactional_id)
            if coordinator == self._me:
                partition = await self._finder.here(question.transactional_id)
                return await partition.ask(question)
            answer = await self._calls.begin(coordinator, question)
        except StrandlineError as error:
            answer = error
        if isinstance(answer, StrandlineError) and not isinstance(answer, ConcurrentTransactions):
            self._finder.forget(question.transactional_id)
        return answer


def _final(transactional_id: str, error: StrandlineError) -> StrandlineError:
    """What the producer hears: nothing of its batch was appended, also if the question has no answer."""
    if not error.retriable or isinstance(error, ConcurrentTransactions):
        return error
    return CoordinatorNotAvailable(
        f"transactional id {transactional_id}: its coordinator did not say in {RETRY_WINDOW_S:.1f} s that "
        f"the producer may append: {error.message}"
    )
