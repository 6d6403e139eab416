"""How long to wait before the next try."""

from __future__ import annotations

from strandline.config import ClientSettings

_DOUBLINGS_MAX = 30


def backoff_s(settings: ClientSettings, attempt: int) -> float:
    """Seconds before try `attempt` (1 is the first repeat): doubling, from the least to the greatest."""
    doubled = settings.retry_backoff_ms << min(max(attempt - 1, 0), _DOUBLINGS_MAX)
    return min(doubled, settings.retry_backoff_ms_max) / 1000
