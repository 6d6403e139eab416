"""Who may read metrics, and what a prober sees."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from strandline.adapters.service_host import service_host
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.telemetry.bearer_token import BearerToken
from strandline.adapters.telemetry.metrics import gauge
from strandline.adapters.telemetry.metrics_server import serve_metrics
from strandline.config.limits import METRICS_CONNECTIONS_MAX
from strandline.config.services.listener import ListenerSettings
from strandline.errors import SettingsError
from strandline.local.ports import LOOPBACK
from tests.scraping import ask
from tests.tls_files import Files, TestAuthority

HEAT = gauge("oven_heat", "How hot it is.")
CLOCK = SystemClock()
TOKEN = "a-token-for-scrapes"


def serve(
    serving: Callable[[], bool] = lambda: True, *, request_s_max: float = 5, **settings: Any
) -> AbstractAsyncContextManager[int | None]:
    """As a broker or a controller does."""
    chosen = ListenerSettings(**{"metrics_port": 0, "allow_insecure": True, **settings})
    tls = service_host(chosen).metrics_tls
    return serve_metrics(
        chosen, [HEAT], lambda: [HEAT.is_now(180)], serving, CLOCK, tls, request_s_max=request_s_max
    )


def get(path: str, authorization: str = "") -> bytes:
    header = f"Authorization: {authorization}\r\n" if authorization else ""
    return f"GET {path} HTTP/1.1\r\nHost: here\r\n{header}\r\n".encode()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path / "authority")


def client_of(files: Files, *, shows: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.cafile)
    if shows:
        context.load_cert_chain(files.certfile, files.keyfile)
    return context


async def test_health_says_whether_the_service_serves_and_no_name() -> None:
    serving = True
    async with serve(lambda: serving) as port:
        assert port
        assert await ask(port, get("/readyz")) == (200, "ok\n")
        serving = False
        assert await ask(port, get("/readyz")) == (503, "not ready\n")
        assert await ask(port, get("/healthz")) == (200, "ok\n")


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        TOKEN,
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN}x",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN[:-1]}",
        "Bearer \xe9",
    ],
)
async def test_a_scrape_without_the_token_gets_nothing(token_file: Path, authorization: str) -> None:
    async with serve(metrics_token_file=token_file) as port:
        assert port
        status, body = await ask(port, get("/metrics", authorization))
        assert (status, "oven" in body) == (401, False)
        assert (await ask(port, get("/readyz")))[0] == 200  # without a token
        status, body = await ask(port, get("/metrics", f"Bearer {TOKEN}"))
        assert (status, "oven_heat 180" in body) == (200, True)


async def test_a_token_is_replaced_while_the_service_runs(token_file: Path) -> None:
    """A file that cannot be used leaves the old token."""
    token = BearerToken(token_file)
    later = token_file.with_name("later")
    later.write_text("another-token-for-scrapes")
    later.chmod(0o644)
    later.rename(token_file)
    assert token.is_shown(f"Bearer {TOKEN}")
    token_file.chmod(0o600)
    assert token.is_shown("bearer another-token-for-scrapes")
    assert not token.is_shown(f"Bearer {TOKEN}")
    token_file.unlink()
    assert token.is_shown("Bearer another-token-for-scrapes")


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (TOKEN, 0o604, "other users can read it: chmod 600"),
        ("short", 0o600, "16 to 4096 bytes"),
        ("x" * 5_000, 0o600, "16 to 4096 bytes"),
        (None, 0o600, "No such file"),
    ],
)
async def test_a_token_that_cannot_be_used_ends_the_start(
    token_file: Path, content: str | None, mode: int, why: str
) -> None:
    """The error names the setting, and never the token."""
    token_file.chmod(mode)
    token_file.unlink() if content is None else token_file.write_text(content)
    with pytest.raises(SettingsError, match=f"metrics_token_file.*{why}") as refused:
        async with serve(metrics_token_file=token_file):
            raise AssertionError("it is served")
    assert TOKEN not in str(refused.value)


async def test_an_encrypted_port_demands_a_certificate(authority: TestAuthority) -> None:
    files = authority.issue()
    async with serve(**files.settings, metrics_ssl=True) as port:
        assert port
        assert (await ask(port, tls=client_of(files, shows=True)))[0] == 200
        for stranger in (client_of(files, shows=False), None):  # without a certificate, and in plaintext
            try:
                assert (await ask(port, tls=stranger))[0] == 0
            except OSError:
                continue  # the server ends the connection while the client still sends


async def test_a_token_takes_the_place_of_a_certificate(authority: TestAuthority, token_file: Path) -> None:
    files = authority.issue()
    anonymous = client_of(files, shows=False)
    async with serve(**files.settings, metrics_ssl=True, metrics_token_file=token_file) as port:
        assert port
        assert (await ask(port, tls=anonymous))[0] == 401
        assert (await ask(port, get("/metrics", f"Bearer {TOKEN}"), anonymous))[0] == 200
        assert (await ask(port, get("/healthz"), anonymous))[0] == 200


async def test_a_new_connection_is_shown_the_newest_certificate(authority: TestAuthority) -> None:
    """As at the other ports: files are replaced while the service runs."""
    files = authority.issue(file="member")
    async with serve(**files.settings, metrics_ssl=True, ssl_reload_ms=10) as port:
        assert port
        other = TestAuthority(authority.folder.with_name("other"))
        renewed = other.issue()
        for old, new in ((files.keyfile, renewed.keyfile), (files.certfile, renewed.certfile)):
            new.rename(old)
        other.cafile.rename(files.cafile)
        while True:
            try:
                assert (await ask(port, tls=client_of(files, shows=True)))[0] == 200
            except ssl.SSLError:
                continue  # the old one still: the files are looked at once in ssl_reload_ms
            return


async def test_unfinished_handshakes_keep_no_client_out(authority: TestAuthority) -> None:
    """They do not hold the thread that accepts, end after a time, and are replaced by newer connections."""
    files = authority.issue()
    tls = client_of(files, shows=True)
    async with serve(**files.settings, metrics_ssl=True, request_s_max=0.5) as port:
        assert port
        held = [await asyncio.open_connection(LOOPBACK, port) for _ in range(3 * METRICS_CONNECTIONS_MAX)]
        held[-1][1].write(b"\x16\x03\x01\x02\x00")  # the begin of a ClientHello
        assert (await ask(port, tls=tls))[0] == 200
        for reader, writer in held:
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()


def test_a_port_without_files_for_tls_ends_the_start() -> None:
    with pytest.raises(SettingsError, match="ssl_certfile"):
        serve(metrics_ssl=True)


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({}, LOOPBACK),
        ({"host": "localhost"}, "localhost"),
        ({"host": "0.0.0.0"}, LOOPBACK),
        ({"host": "0.0.0.0", "metrics_host": "192.0.2.7"}, "192.0.2.7"),
        ({"host": "0.0.0.0", "metrics_token_file": "token"}, "0.0.0.0"),
        ({"host": "::", "metrics_ssl": True}, "::"),
        ({"host": "::", "metrics_ssl": True, "ssl_client_auth": "none"}, LOOPBACK),
    ],
)
def test_open_metrics_stay_on_this_machine(settings: dict[str, Any], host: str) -> None:
    """Unless `metrics_host` says otherwise: they have the names of topics and groups."""
    assert ListenerSettings(**settings).metrics_address == host


@pytest.mark.parametrize(
    ("shows", "host", "warnings"),
    [
        (False, "0.0.0.0", ["everyone who reaches this port"]),
        (True, "0.0.0.0", ["not encrypted"]),
        (False, LOOPBACK, []),
    ],
)
async def test_metrics_that_others_may_read_are_warned_of(
    token_file: Path, shows: bool, host: str, warnings: list[str]
) -> None:
    with capture_logs() as logged:
        async with serve(metrics_host=host, metrics_token_file=token_file if shows else None):
            pass
    found = [line["event"] for line in logged if line["log_level"] == "warning"]
    assert [any(part in event for event in found) for part in warnings] == [True] * len(found)
