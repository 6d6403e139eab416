"""The logger for waits that a user should see while they last; the command line shows it."""

from __future__ import annotations

from typing import Final

WAITS_LOGGER: Final = "strandline.client.waits"

NOTICE_AFTER_S: Final = 2.0
"""Waits longer than this are logged; most are shorter."""
