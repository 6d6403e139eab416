"""The settings of the port for metrics and health, of brokers and controllers alike."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class MetricsSettings(BaseModel):
    """Where metrics are served, and to whom."""

    model_config = ConfigDict(defer_build=True)

    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """Port for Prometheus metrics over HTTP at /metrics, and for health at /healthz and /readyz; 0: any free
    port; None: no such port."""
    metrics_host: str | None = None
    """Address of that port; None: `host`, or 127.0.0.1 if other machines reach `host` and anyone could read
    the metrics."""
    metrics_ssl: bool = False
    """Whether the port speaks HTTPS, with `ssl_certfile`. Without `metrics_token_file`, it demands
    certificates of clients as `ssl_client_auth` says."""
    metrics_token_file: Path | None = None
    """A file with a token of at least 16 characters, which other users must not be able to read. A scrape has
    to show it as its bearer token; health needs none. None: no token."""
