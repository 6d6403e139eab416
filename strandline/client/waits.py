"""What a client waits for, told while it still waits: a log of its own, which the command line shows."""

from __future__ import annotations

from typing import Final

WAITS_LOGGER: Final = "strandline.client.waits"

WAIT_TOLD_AFTER_S: Final = 2.0
"""What takes longer than this is told; most waits are over before."""
