"""Asks coordinators and leaders which transactions there are: once for all browsers that look at one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strandline.client.admin.admin import Admin
from strandline.console.feeds.leaders import WAIT_MS
from strandline.console.feeds.shared_answers import SharedAnswers
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.transactions import ListedTransaction, LogTransactions

InLogs = Mapping[TopicPartition, LogTransactions]


class TransactionsFeed:
    """Only callers with the same client, thus with the same rights, share an answer."""

    def __init__(self, clock: Clock) -> None:
        self._listed: SharedAnswers[Sequence[ListedTransaction]] = SharedAnswers(clock)
        self._in_logs: SharedAnswers[InLogs] = SharedAnswers(clock)

    async def listed(self, admin: Admin) -> Sequence[ListedTransaction]:
        """All transactional ids that this client may see, by name. Raises as `Admin.list_transactions`."""
        return await self._listed.get(admin, admin.list_transactions)

    async def in_logs(self, admin: Admin, names: Sequence[TopicPartition]) -> InLogs:
        """What is open in these logs; without those whose leaders refuse, or do not answer in a moment."""
        if not names:
            return {}

        async def ask() -> InLogs:
            answers = await admin.open_transactions(names, wait_ms=WAIT_MS)
            return {name: log for name, log in answers.items() if isinstance(log, LogTransactions)}

        return await self._in_logs.get((admin, tuple(names)), ask)
