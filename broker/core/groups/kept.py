"""How many bytes a coordinator keeps in memory for its groups, and the bound on that.

Groups, members and offsets have bounds of their own, but their product is more than a broker has. The sizes
are estimates of what CPython takes, rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline.errors import InvalidRequest

GROUP_BYTES: Final = 1_024
MEMBER_BYTES: Final = 1_024
PENDING_BYTES: Final = 512
"""A member id that was given and not used yet, with its timer."""
OFFSET_BYTES: Final = 512
OWNED_BYTES: Final = 256
"""A partition that a member reported to own."""


@dataclass(slots=True)
class KeptBytes:
    """Of all groups of a coordinator."""

    most: int
    total: int = 0

    def check(self, added: int, what: str) -> None:
        """Raises InvalidRequest if there is no room for this many bytes more."""
        if self.total + added > self.most:
            raise InvalidRequest(
                f"{what} needs {added} bytes of the coordinator, which keeps {self.total} of at most "
                f"{self.most} for its groups: delete groups, or raise group_state_bytes_max",
                limit=self.most,
            )
