"""The active controller's requests about ACLs: it is the only writer of their znodes.

Each pattern is one compare-and-set, in one `multi` with the notice that brokers watch. A request that is
refused for one pattern has its effect on the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import structlog

from strandline.adapters.zookeeper.security.acl_reader import AclReader
from strandline.adapters.zookeeper.security.acl_znodes import (
    ACL_FOLDERS,
    SKELETON,
    dump_bindings,
    dump_change,
    encoded,
    pattern_path,
)
from strandline.adapters.zookeeper.security.notices import noticed_write
from strandline.config.limits import ZNODE_BYTES_MAX
from strandline.controller.security.patterns import check_new_acl
from strandline.controller.security.writes import Write, compare_and_set, each_alone
from strandline.controller.term.term import Term
from strandline.errors import InvalidRequest, StrandlineError
from strandline.security.acls import AclBinding, AclFilter, ResourcePattern
from strandline.security.authorizer import Authorizer
from strandline.security.decide import Acls
from strandline.vocabulary.admin import AclResult, DeletedAcls

logger = structlog.get_logger(__name__)

ACLS_MAX: Final = 20_000
"""ACLs of a cluster: each broker has all of them in memory."""
PATTERN_NAMES_BYTES_MAX: Final = 512 * 1024
"""Names of one folder: ZooKeeper lists them in one message of at most 1 MB."""


class AclRequests:
    """The ACLs of one epoch. Requests are carried out one after the other."""

    def __init__(self, term: Term, authorizer: Authorizer) -> None:
        self._session = term.session
        self._authorizer = authorizer
        self._reader = AclReader(term.session, authorizer.version)
        self._one = asyncio.Lock()

    async def load(self) -> None:
        """Reads all ACLs."""
        if self._authorizer.rules is None:
            return
        for path in SKELETON:
            await self._session.ensure_path(path)
        self._take(await self._reader.load())

    async def reconcile(self) -> None:
        """Finds what was changed by hand."""
        if self._authorizer.rules is None:
            return
        async with self._one:
            self._take(await self._reader.look())
            self._take(await self._reader.compare())

    async def create(self, bindings: Sequence[AclBinding]) -> list[AclResult]:
        """Returns one outcome a binding, in order. One that exists already is a success; one that could cover
        nothing is refused by itself."""
        async with self._one:
            wanted: dict[ResourcePattern, list[AclBinding]] = {}
            unfit: dict[AclBinding, StrandlineError] = {}
            for binding in bindings:
                try:
                    check_new_acl(binding)
                    wanted.setdefault(binding.pattern, []).append(binding)
                except InvalidRequest as error:
                    unfit[binding] = error
            refused = self._refused(wanted)
            if refused is not None:
                return [AclResult(binding, refused) for binding in bindings]
            errors = await self._write_all({pattern: (each, ()) for pattern, each in wanted.items()})
            return [
                AclResult(binding, unfit[binding] if binding in unfit else errors[binding.pattern])
                for binding in bindings
            ]

    async def delete(self, filters: Sequence[AclFilter]) -> list[DeletedAcls]:
        """Returns for each filter the bindings that it matched: deleted, or with the reason why not."""
        async with self._one:
            matching = [self._reader.acls.matching(wanted) for wanted in filters]
            doomed: dict[ResourcePattern, list[AclBinding]] = {}
            for bindings in matching:
                for binding in bindings:
                    doomed.setdefault(binding.pattern, []).append(binding)
            errors = await self._write_all({pattern: ((), each) for pattern, each in doomed.items()})
            return [
                DeletedAcls(tuple(AclResult(binding, errors[binding.pattern]) for binding in bindings))
                for bindings in matching
            ]

    async def describe(self, wanted: AclFilter) -> list[AclBinding]:
        """The bindings that the filter matches, in order."""
        return self._reader.acls.matching(wanted)

    # --- writes --------------------------------------------------------------------------------

    def _refused(self, wanted: dict[ResourcePattern, list[AclBinding]]) -> InvalidRequest | None:
        acls = self._reader.acls
        new = sum(
            len(set(bindings).difference(acls.patterns.get(pattern, ())))
            for pattern, bindings in wanted.items()
        )
        if len(acls) + new > ACLS_MAX:
            return InvalidRequest(
                f"the cluster has {len(acls)} ACLs; with {new} more there would be more than {ACLS_MAX}",
                limit=ACLS_MAX,
            )
        patterns = {*acls.patterns, *wanted}
        for resource_type, pattern_type in ACL_FOLDERS:
            names = [
                encoded(each.name)
                for each in patterns
                if (each.resource_type, each.pattern_type) == (resource_type, pattern_type)
            ]
            if sum(map(len, names)) > PATTERN_NAMES_BYTES_MAX:
                return InvalidRequest(
                    f"the names of {resource_type.name} {pattern_type.name} patterns would have more than"
                    f" {PATTERN_NAMES_BYTES_MAX} bytes: use prefixes instead of single names",
                    limit=PATTERN_NAMES_BYTES_MAX,
                )
        return None

    async def _write_all(
        self, changes: dict[ResourcePattern, tuple[Iterable[AclBinding], Iterable[AclBinding]]]
    ) -> dict[ResourcePattern, StrandlineError | None]:
        """Adds and removes bindings of these patterns. Returns the error of each."""
        found: dict[ResourcePattern, frozenset[AclBinding]] = {}

        async def write(pattern: ResourcePattern) -> None:
            await self._write(pattern, *changes[pattern], found)

        errors = await each_alone(write, changes)
        self._authorizer.take(self._reader.put(found))
        return errors

    async def _write(
        self,
        pattern: ResourcePattern,
        add: Iterable[AclBinding],
        remove: Iterable[AclBinding],
        found: dict[ResourcePattern, frozenset[AclBinding]],
    ) -> None:
        """Adds and removes bindings of one pattern, and notes in `found` what it has then."""

        async def prepare() -> Write[frozenset[AclBinding]] | None:
            stored = await self._reader.read(pattern)
            found[pattern] = stored.bindings
            if add and stored.unreadable is not None:
                raise InvalidRequest(f"{stored.unreadable.message}; delete the ACLs of {pattern} first")
            after = stored.bindings.difference(remove).union(add)
            if after == stored.bindings:
                return None
            operations = noticed_write(
                pattern_path(pattern), stored.version, _data(after), dump_change([pattern])
            )
            return Write(after, operations, partial(self._stands, pattern, after))

        written = await compare_and_set(self._session, prepare, f"the ACLs of {pattern} were")
        if written is not None:
            found[pattern] = written
            logger.info("ACLs changed", pattern=str(pattern), acls=len(written))

    async def _stands(self, pattern: ResourcePattern, bindings: frozenset[AclBinding]) -> bool:
        return (await self._reader.read(pattern)).bindings == bindings

    def _take(self, acls: Acls | None) -> None:
        if acls is not None:
            self._authorizer.take(acls)


def _data(bindings: frozenset[AclBinding]) -> bytes | None:
    """What the znode of a pattern with these bindings holds; None: it has none. Raises InvalidRequest."""
    if not bindings:
        return None
    data = dump_bindings(bindings)
    if len(data) > ZNODE_BYTES_MAX:
        raise InvalidRequest(
            f"{len(bindings)} ACLs of one pattern have {len(data)} bytes, more than {ZNODE_BYTES_MAX}",
            limit=ZNODE_BYTES_MAX,
        )
    return data
