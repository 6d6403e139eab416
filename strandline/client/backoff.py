"""The pause between two tries."""

from __future__ import annotations

from strandline.config.client import ClientSettings

_DOUBLINGS_MAX = 30


def backoff_s(settings: ClientSettings, attempt: int) -> float:
    """Seconds before retry number `attempt` (from 1). The pause doubles up to `retry_backoff_ms_max`."""
    doubled = settings.retry_backoff_ms << min(max(attempt - 1, 0), _DOUBLINGS_MAX)
    return min(doubled, settings.retry_backoff_ms_max) / 1000
