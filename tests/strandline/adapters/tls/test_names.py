"""A certificate has to name the host under which its process is reached (docs/run/security.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from strandline.adapters.service_host import service_host
from strandline.adapters.tls.handshake import Certificate
from strandline.config.services.listener import ListenerSettings
from tests.tls_files import TestAuthority

HOSTS = frozenset({"Broker-1.example", "*.harbour.example", "10.0.0.7", "0:0:0:0:0:0:0:1"})


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("broker-1.EXAMPLE", True),
        ("b7.harbour.example", True),
        ("10.0.0.7", True),
        ("[::1]", True),
        ("harbour.example", False),
        ("a.b.harbour.example", False),
        ("broker-2.example", False),
        ("10.0.0.8", False),
        ("localhost", False),
    ],
)
def test_a_certificate_names_hosts_and_addresses(host: str, named: bool) -> None:
    assert Certificate(0, HOSTS).names(host) is named


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, []),
        ({"advertised_host": "broker-1.example"}, ["advertised_host"]),
        ({"external_port": 0, "external_host": "outside.example"}, ["external_host"]),
        (
            {
                "external_port": 0,
                "external_host": "outside.example",
                "external_security_protocol": "PLAINTEXT",
            },
            [],
        ),
        ({"external_host": "outside.example"}, []),  # there is no such port
    ],
)
async def test_a_host_that_the_certificate_lacks_is_warned_of(
    tmp_path: Path, settings: dict[str, Any], said: list[str]
) -> None:
    """The process begins: a name may be good for some clients, and a certificate is renewed while it runs."""
    chosen = ListenerSettings(**TestAuthority(tmp_path).issue().settings, **settings)
    host = service_host(chosen)
    listener = host.listen(chosen, [], on_answered=lambda *_: None, on_refused=lambda *_: None)
    with capture_logs() as logged:
        listener.bind(1)
    assert [line["setting"] for line in logged if line["log_level"] == "warning"] == said
