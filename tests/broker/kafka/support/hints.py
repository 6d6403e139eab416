"""Names no leaders."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.handlers.leader_hints import LeaderHints

NO_HINTS: Final = LeaderHints(lambda name: None, dict, tuple)
