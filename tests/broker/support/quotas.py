"""Quotas of clients, for tests."""

from __future__ import annotations

from typing import Final

from strandline.security.quotas.bill import ClientQuotas

UNLIMITED: Final = ClientQuotas(lambda _: False, lambda: 0.0, delay_ms_max=1)
"""No quota is set."""
