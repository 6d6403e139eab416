"""Plays Prometheus: one scrape over HTTP, parsed by prometheus_client."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from strandline.local.cluster import LocalCluster
from strandline.local.ports import LOOPBACK
from tests.waiting import eventually

SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"
ANSWER_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Scrape:
    """Values by name, and by label: `scrape("name", topic="orders")`."""

    values: dict[tuple[str, frozenset[tuple[str, str]]], float]
    kinds: dict[str, str]

    def __call__(self, name: str, **labels: str) -> float:
        """0 for what is not there, as in a sum."""
        return self.values.get((name, frozenset(labels.items())), 0.0)

    def has(self, name: str, **labels: str) -> bool:
        return (name, frozenset(labels.items())) in self.values

    def labels(self, name: str, label: str) -> set[str]:
        """The values of a label that this name has."""
        return {dict(labels)[label] for each, labels in self.values if each == name}


async def ask(port: int, request: bytes = SCRAPE, tls: ssl.SSLContext | None = None) -> tuple[int, str]:
    """The status and the body of the server's answer; status 0 if that is not HTTP, or nothing. `tls` None:
    in plaintext. Raises SSLError if one end refuses the other."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=tls)
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            writer.write(request)
            answer = await reader.read()
    except ConnectionResetError:
        return 0, ""
    finally:
        writer.close()
    head, _, body = answer.decode().partition("\r\n\r\n")
    return (int(head.split()[1]) if head.startswith("HTTP/") else 0), body


@dataclass(frozen=True, slots=True)
class Prometheus:
    """How a scrape asks; by default in plaintext, without a token."""

    tls: ssl.SSLContext | None = None
    request: bytes = SCRAPE

    @classmethod
    def of(cls, cluster: LocalCluster) -> Prometheus:
        """One that a secure cluster answers: it knows the authority, and shows the token."""
        token = (cluster.directory / "metrics-token").read_text().strip()
        request = SCRAPE.replace(b"\r\n\r\n", f"\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        return cls(ssl.create_default_context(cafile=cluster.client_settings["ssl_cafile"]), request)


IN_PLAINTEXT = Prometheus()


async def scrape(port: int, by: Prometheus = IN_PLAINTEXT) -> Scrape:
    status, body = await ask(port, by.request, by.tls)
    assert status == 200, (status, body)
    values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    kinds: dict[str, str] = {}
    for family in text_string_to_metric_families(body):
        kinds[family.name] = family.type
        for sample in family.samples:
            values[sample.name, frozenset(sample.labels.items())] = sample.value
    return Scrape(values, kinds)


async def scraped(
    port: int, what: Callable[[Scrape], bool], by: Prometheus = IN_PLAINTEXT, *, deadline_s: float = 10
) -> Scrape:
    """The first scrape of which `what` is true."""

    async def look() -> Scrape | None:
        found = await scrape(port, by)
        return found if what(found) else None

    found = await eventually(look, deadline_s=deadline_s, what="a scrape that shows it")
    assert found is not None
    return found
