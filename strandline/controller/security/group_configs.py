"""The active controller's requests about configs of groups: it is the only writer of their znodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from strandline.adapters.zookeeper.security.group_config_znodes import GROUP_CONFIG_FOLDER
from strandline.controller.security.facts import Facts
from strandline.controller.term.term import Term
from strandline.vocabulary.configs.groups import (
    GroupBounds,
    GroupConfig,
    GroupConfigAlteration,
    GroupConfigResult,
    GroupConfigs,
    altered,
    check_name,
)


class GroupConfigRequests:
    """The configs of groups in one epoch."""

    def __init__(self, term: Term) -> None:
        self._bounds = GroupBounds.of(term.settings)
        self.facts = Facts(term.session, GROUP_CONFIG_FOLDER, "group configs")

    async def alter(
        self, alterations: Sequence[GroupConfigAlteration], *, validate_only: bool = False
    ) -> list[GroupConfigResult]:
        """Returns one outcome a group, in order."""
        wanted = [(each.group, self._after(each)) for each in alterations]
        errors = await self.facts.alter(wanted, validate_only=validate_only)
        return [GroupConfigResult(each.group, error) for each, error in zip(alterations, errors, strict=True)]

    def _after(self, change: GroupConfigAlteration) -> Callable[[GroupConfig], GroupConfig]:
        return partial(_altered, change, self._bounds)

    async def describe(self, groups: Sequence[str]) -> list[GroupConfigs]:
        """What these groups have of their own, as it is now; none named: all groups that have something."""
        if not groups:
            return [GroupConfigs(group, config) for group, config in sorted(self.facts.found.items())]
        return [GroupConfigs(group, (await self.facts.read(group)).value) for group in groups]


def _altered(change: GroupConfigAlteration, bounds: GroupBounds, before: GroupConfig) -> GroupConfig:
    """Raises InvalidRequest, InvalidConfig."""
    check_name(change.group)
    return altered(before, change.set, change.unset, bounds, replace=change.replace)
