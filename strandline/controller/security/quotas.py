"""The active controller's requests about quotas of clients: it is the only writer of their znodes."""

from __future__ import annotations

from collections.abc import Sequence

from strandline.adapters.zookeeper.security.quota_znodes import QUOTA_FOLDER
from strandline.controller.security.facts import Facts
from strandline.controller.term.term import Term
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import EntityQuotas, QuotaAlteration, QuotaFilter, Quotas
from strandline.vocabulary.admin import QuotaResult


class QuotaRequests:
    """The quotas of one epoch."""

    def __init__(self, term: Term, quotas: ClientQuotas) -> None:
        """`quotas`: those that this controller goes by itself."""
        self._quotas = quotas
        self.facts = Facts(term.session, QUOTA_FOLDER, "quotas", lambda found: quotas.take(Quotas(found)))

    async def alter(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
    ) -> list[QuotaResult]:
        """Returns one outcome an entity, in order."""
        wanted = [(each.entity, each.after) for each in alterations]
        errors = await self.facts.alter(wanted, validate_only=validate_only)
        return [QuotaResult(each.entity, error) for each, error in zip(alterations, errors, strict=True)]

    async def describe(self, wanted: QuotaFilter) -> list[EntityQuotas]:
        """The entities that the filter chooses, in order."""
        return self._quotas.quotas.matching(wanted)
