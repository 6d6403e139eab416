"""What brokers and controllers have in common about groups whose coordinator assigns."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from strandline.config.limits import INTERVAL_MS_MAX


class ConsumerGroupSettings(BaseModel):
    """The times of such groups, and the bounds of those that one group has in its own configs. A controller
    checks new configs by these, and a broker keeps to its own."""

    model_config = ConfigDict(defer_build=True)

    group_consumer_session_timeout_ms: int = Field(default=45_000, ge=1, le=INTERVAL_MS_MAX)
    """A member whose coordinator assigns (KIP-848) is out of its group after this time in silence."""
    group_consumer_session_timeout_ms_min: int = Field(default=45_000, ge=1, le=INTERVAL_MS_MAX)
    """The least that `consumer.session.timeout.ms` of one group may be."""
    group_consumer_session_timeout_ms_max: int = Field(default=60_000, ge=1, le=INTERVAL_MS_MAX)
    group_consumer_heartbeat_interval_ms: int = Field(default=5_000, ge=1, le=INTERVAL_MS_MAX)
    """How often such a member sends one."""
    group_consumer_heartbeat_interval_ms_min: int = Field(default=5_000, ge=1, le=INTERVAL_MS_MAX)
    """The least that `consumer.heartbeat.interval.ms` of one group may be."""
    group_consumer_heartbeat_interval_ms_max: int = Field(default=15_000, ge=1, le=INTERVAL_MS_MAX)

    @model_validator(mode="after")
    def _have_room(self) -> Self:
        for name in ("group_consumer_session_timeout_ms", "group_consumer_heartbeat_interval_ms"):
            least, most = getattr(self, f"{name}_min"), getattr(self, f"{name}_max")
            if least > most:
                raise ValueError(f"{name}_min = {least} is more than {name}_max = {most}")
        return self
