"""Says what is unsafe once a minute, while it lasts: a line at the start of a process is soon forgotten."""

from __future__ import annotations

from typing import Final

import structlog

from strandline.config.authorization import AuthorizationSettings
from strandline.ports import Clock

logger = structlog.get_logger(__name__)

EVERY_S: Final = 60.0


async def warn_while_unsafe(settings: AuthorizationSettings, clock: Clock) -> None:
    """Runs until it is cancelled, or at once if there is nothing to say."""
    while settings.authorizer == "acl" and settings.allow_everyone_if_no_acl_found:
        logger.warning(
            "every caller may use each topic, group and the cluster as long as no ACL is about it",
            setting="allow_everyone_if_no_acl_found",
        )
        await clock.sleep(EVERY_S)
