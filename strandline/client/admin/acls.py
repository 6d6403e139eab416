"""Creates, deletes and lists ACLs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from strandline.adapters.codecs.acls import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from strandline.client.admin.refusals import raise_first
from strandline.ports import Method, Request, Response
from strandline.security.acls import AclBinding, AclFilter
from strandline.vocabulary.admin import AclResult


class AclAdmin(ABC):
    """A part of `Admin`, which asks the active controller."""

    @abstractmethod
    async def _ask_controller(self, method: Method[Request, Response], request: Request) -> Response: ...

    async def create_acls(self, acls: Sequence[AclBinding]) -> None:
        """Create ACLs; one that exists already stays. They count at each broker a moment after the return.

        Raises the first refusal, with the others as notes, once the other ACLs exist; SecurityDisabled if the
        cluster has no authorizer, NotController.
        """
        _raise_first(await self._ask_controller(CREATE_ACLS, acls))

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[AclBinding]:
        """Delete the ACLs that a filter matches. Returns them, in order. Raises as `create_acls`."""
        results = await self._ask_controller(DELETE_ACLS, filters)
        matched = [each for result in results for each in result.matched]
        _raise_first(matched)
        return sorted({each.binding for each in matched})

    async def describe_acls(self, wanted: AclFilter | None = None) -> list[AclBinding]:
        """The ACLs that the filter matches, or all, in order. Raises SecurityDisabled, NotController."""
        found = await self._ask_controller(DESCRIBE_ACLS, wanted or AclFilter())
        return list(found)


def _raise_first(results: Sequence[AclResult]) -> None:
    """Two filters may match one ACL: it is named once."""
    raise_first({each.binding: each.error for each in results}.items())
