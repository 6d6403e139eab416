"""Sets, removes and lists quotas of users, client ids and addresses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from strandline.adapters.codecs.quotas import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from strandline.client.admin.refusals import raise_first
from strandline.ports import Method, Request, Response
from strandline.security.quotas.model import EntityQuotas, QuotaAlteration, QuotaFilter
from strandline.vocabulary.admin import AlterClientQuotas


class QuotaAdmin(ABC):
    """A part of `Admin`, which asks the active controller."""

    @abstractmethod
    async def _ask_controller(self, method: Method[Request, Response], request: Request) -> Response: ...

    async def alter_client_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
    ) -> None:
        """Set or remove limits of users, client ids and addresses. They count at each broker a moment after
        the return.

        Raises the first refusal, with the others as notes, once the other limits stand; NotController.
        """
        asked = AlterClientQuotas(tuple(alterations), validate_only)
        results = await self._ask_controller(ALTER_CLIENT_QUOTAS, asked)
        raise_first((each.entity, each.error) for each in results)

    async def describe_client_quotas(self, wanted: QuotaFilter | None = None) -> list[EntityQuotas]:
        """The quotas of the entities that the filter chooses, or all, in order. Raises NotController."""
        found = await self._ask_controller(DESCRIBE_CLIENT_QUOTAS, wanted or QuotaFilter())
        return list(found)
