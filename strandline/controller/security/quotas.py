"""The active controller's requests about quotas of clients: it is the only writer of their znodes.

Each entity is one compare-and-set, in one `multi` with the notice that brokers watch. A request that is
refused for one entity has its effect on the others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from strandline.adapters.zookeeper.security.folder_reader import FolderReader
from strandline.adapters.zookeeper.security.quota_znodes import QUOTA_FOLDER, entity_child
from strandline.controller.security.writes import Write, compare_and_set, each_alone
from strandline.controller.term.term import Term
from strandline.errors import InvalidRequest, StrandlineError
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import (
    EntityQuotas,
    Limits,
    QuotaAlteration,
    QuotaEntity,
    QuotaFilter,
    Quotas,
)
from strandline.vocabulary.admin import QuotaResult

logger = structlog.get_logger(__name__)

ENTITIES_MAX: Final = 10_000
"""Entities with quotas: each broker has all of them in memory."""
NAMES_BYTES_MAX: Final = 512 * 1024
"""Their names: ZooKeeper lists them in one message of at most 1 MB."""


class QuotaRequests:
    """The quotas of one epoch. Requests are carried out one after the other."""

    def __init__(self, term: Term, quotas: ClientQuotas) -> None:
        """`quotas`: those that this controller goes by itself."""
        self._session = term.session
        self._quotas = quotas
        self._reader = FolderReader(term.session, QUOTA_FOLDER)
        self._one = asyncio.Lock()

    async def load(self) -> None:
        """Reads all quotas."""
        for path in QUOTA_FOLDER.skeleton:
            await self._session.ensure_path(path)
        self._take(await self._reader.load())

    async def reconcile(self) -> None:
        """Finds what was changed by hand."""
        async with self._one:
            self._take(await self._reader.look())
            self._take(await self._reader.compare())

    async def alter(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
    ) -> list[QuotaResult]:
        """Returns one outcome an entity, in order."""
        async with self._one:
            refused = self._refused(alterations)
            if refused is not None:
                return [QuotaResult(each.entity, refused) for each in alterations]
            times = Counter(each.entity for each in alterations)
            errors: dict[QuotaEntity, StrandlineError | None] = {
                entity: InvalidRequest(f"{entity} stands more than once in the request")
                for entity in times
                if times[entity] > 1
            }
            if not validate_only:
                wanted = {each.entity: each for each in alterations if times[each.entity] == 1}
                found: dict[QuotaEntity, Limits] = {}
                errors |= await each_alone(partial(self._write, wanted, found), wanted)
                self._take(self._reader.put(found))
            return [QuotaResult(each.entity, errors.get(each.entity)) for each in alterations]

    async def describe(self, wanted: QuotaFilter) -> list[EntityQuotas]:
        """The entities that the filter chooses, in order."""
        return self._quotas.quotas.matching(wanted)

    def _refused(self, alterations: Sequence[QuotaAlteration]) -> InvalidRequest | None:
        """Why no entity can be added; None: all of the request's can be there."""
        there = self._reader.found
        new = {each.entity for each in alterations if each.sets and each.entity not in there}
        if not new:
            return None
        entities = {*there, *new}
        if len(entities) > ENTITIES_MAX:
            return InvalidRequest(
                f"there would be quotas for {len(entities)} entities, more than {ENTITIES_MAX}",
                limit=ENTITIES_MAX,
            )
        if sum(len(entity_child(entity)) for entity in entities) > NAMES_BYTES_MAX:
            return InvalidRequest(
                f"the names of all entities with quotas would have more than {NAMES_BYTES_MAX} bytes: "
                "set defaults instead",
                limit=NAMES_BYTES_MAX,
            )
        return None

    async def _write(
        self,
        wanted: Mapping[QuotaEntity, QuotaAlteration],
        found: dict[QuotaEntity, Limits],
        entity: QuotaEntity,
    ) -> None:
        """Writes the new limits of an entity, and notes in `found` what it has then."""

        async def prepare() -> Write[Limits] | None:
            stored = await self._reader.read(entity)
            found[entity] = stored.value
            after = wanted[entity].after(stored.value)
            if stored.holds(after):
                return None
            return Write(
                after, QUOTA_FOLDER.writes(entity, stored, after), partial(self._stands, entity, after)
            )

        written = await compare_and_set(self._session, prepare, f"the quotas of {entity} were")
        if written is not None:
            found[entity] = written
            logger.info("quotas changed", entity=str(entity), limits=dict(written))

    async def _stands(self, entity: QuotaEntity, limits: Limits) -> bool:
        return (await self._reader.read(entity)).holds(limits)

    def _take(self, found: Mapping[QuotaEntity, Limits] | None) -> None:
        if found is not None:
            self._quotas.take(Quotas(found))
