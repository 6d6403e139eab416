"""One replica on this broker, with its leadership.

A `Leadership` works on a `LocalReplica`: it does not see that it can be reached from the replica.
"""

from __future__ import annotations

from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.local_replica import LocalReplica
from strandline.errors import NotLeaderOrFollower
from strandline.ids import Offset


class Replica(LocalReplica):
    """A replica with the leadership that this broker has of its partition, if it leads."""

    leadership: Leadership | None = None

    def led(self) -> Leadership:
        """The leadership of this partition, if this broker leads it. Raises NotLeaderOrFollower."""
        if self.leadership is None:
            raise NotLeaderOrFollower(f"this broker does not lead {self.name}")
        return self.leadership

    @property
    def committed_lag(self) -> int:
        """How many committed offsets this log lacks, as far as known: it is being copied, or lost them."""
        told = Offset(-1) if self.leadership is not None else self.leader_watermark
        known = max(self.watermark_known, told)
        return max(0, known - self.log.log_end_offset)
