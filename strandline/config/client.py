"""The settings that all clients share."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from strandline.config.limits import GROUP_ID_LENGTH_MAX
from strandline.config.login import LoginSettings


class ClientSettings(LoginSettings):
    """Settings that producer, consumer and admin share."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    client_id: str = Field(default="strandline", strict=True, max_length=GROUP_ID_LENGTH_MAX)
    """What this client calls itself: quotas may be for it, `group describe` shows it, and the ids of members
    begin with it."""
    request_timeout_ms: int = Field(default=10_000, ge=1)
    """Timeout of one attempt of one request."""
    retry_backoff_ms: int = Field(default=20, ge=1)
    retry_backoff_ms_max: int = Field(default=500, ge=1)
    metadata_max_age_ms: int = Field(default=60_000, ge=1)
    connect_timeout_ms: int = Field(default=5_000, ge=1)
