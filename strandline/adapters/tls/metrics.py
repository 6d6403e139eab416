"""Metrics of the certificate that a process shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strandline.adapters.telemetry.metrics import Sample, counter, gauge
from strandline.host import Certificates

RELOAD_FAILURES: Final = counter(
    "strandline_tls_reload_failures_total",
    "Certificates and keys that were put in place and could not be used; the old ones stay. Only with SSL.",
)
EXPIRY_S: Final = gauge(
    "strandline_tls_certificate_expiry_seconds",
    "Seconds until this process's certificate expires; negative once it has. Only with SSL.",
)
TLS_METRICS: Final = (RELOAD_FAILURES, EXPIRY_S)


def read_certificates(certificates: Certificates | None) -> Iterator[Sample]:
    """None: no port of the process has SSL."""
    if certificates is None:
        return
    yield RELOAD_FAILURES.is_now(certificates.failures)
    expires_in_s = certificates.expires_in_s()
    if expires_in_s is not None:
        yield EXPIRY_S.is_now(expires_in_s)
