"""Sets, removes and lists quotas of users, client ids and addresses, and configs of groups."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence

from strandline.adapters.codecs.group_configs import ALTER_GROUP_CONFIGS, DESCRIBE_GROUP_CONFIGS
from strandline.adapters.codecs.quotas import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from strandline.client.admin.refusals import raise_first
from strandline.ports import Method, Request, Response
from strandline.security.quotas.model import EntityQuotas, QuotaAlteration, QuotaFilter
from strandline.vocabulary.admin import AlterClientQuotas
from strandline.vocabulary.configs.groups import AlterGroupConfigs, GroupConfigAlteration


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


class GroupConfigAdmin(ABC):
    """A part of `Admin`, which asks the active controller."""

    @abstractmethod
    async def _ask_controller(self, method: Method[Request, Response], request: Request) -> Response: ...

    async def alter_group_config(
        self,
        group: str,
        set: Mapping[str, str] | None = None,
        unset: Collection[str] = (),
        *,
        validate_only: bool = False,
    ) -> None:
        """Change what a group has instead of the brokers' settings, by Kafka's names, such as
        `consumer.session.timeout.ms`. The group need not be there yet. Its coordinator goes by it a moment
        after the return.

        Raises InvalidConfig, InvalidRequest, GroupAuthorizationFailed, NotController.
        """
        alteration = GroupConfigAlteration(group, dict(set or {}), tuple(unset))
        asked = AlterGroupConfigs((alteration,), validate_only)
        results = await self._ask_controller(ALTER_GROUP_CONFIGS, asked)
        raise_first((each.group, each.error) for each in results)

    async def describe_group_configs(self, groups: Sequence[str] = ()) -> dict[str, Mapping[str, str]]:
        """What these groups have of their own, or all groups that have something, by group.

        Raises GroupAuthorizationFailed, NotController.
        """
        found = await self._ask_controller(DESCRIBE_GROUP_CONFIGS, tuple(groups))
        raise_first((each.group, each.error) for each in found)
        return {each.group: each.config for each in found}
