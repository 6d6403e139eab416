"""How the clients of a suite prove who they are: settings of the cluster, and files with the clients'."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from strandline import Admin, LocalCluster

USER: Final = "admin"
"""A super user of a secure local cluster, by its certificate as by its password."""
KNOWN_S: Final = 2.0
"""Brokers take a new user within milliseconds."""


class Security(StrEnum):
    """A certificate, or a login over an encrypted connection."""

    SSL = "SSL"
    SCRAM = "SCRAM-SHA-512"
    PLAIN = "PLAIN"

    @property
    def broker_settings(self) -> Mapping[str, Any]:
        if self is Security.SSL:
            return {}
        return {"kafka_security_protocol": "SASL_SSL", "sasl_enabled_mechanisms": self.value}


async def write_client_settings(security: Security, cluster: LocalCluster, folder: Path) -> None:
    """Writes a file with the settings of librdkafka's clients, and one for Java's. Of a login, the cluster
    gets the user."""
    folder.mkdir(parents=True, exist_ok=True)
    files = cluster.client_settings
    authority, certificate, key = files["ssl_cafile"], files["ssl_certfile"], files["ssl_keyfile"]
    librdkafka = {"ssl.ca.location": authority}
    java = {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    if security is Security.SSL:
        both = {"security.protocol": "SSL"}
        librdkafka |= {"ssl.certificate.location": certificate, "ssl.key.location": key}
        chain = folder / "chain.pem"
        _write(chain, Path(key).read_text() + Path(certificate).read_text())
        java |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(chain)}
    else:
        both = {"security.protocol": "SASL_SSL", "sasl.mechanism": security.value}
        password = secrets.token_hex(16)
        async with Admin(cluster.bootstrap, **files) as admin:
            await admin.set_user(USER, password)
        await asyncio.sleep(KNOWN_S)
        librdkafka |= {"sasl.username": USER, "sasl.password": password}
        kind = "plain.PlainLoginModule" if security is Security.PLAIN else "scram.ScramLoginModule"
        java["sasl.jaas.config"] = (
            f'org.apache.kafka.common.security.{kind} required username="{USER}" password="{password}";'
        )
    _write(folder / "librdkafka.properties", _lines(both | librdkafka))
    _write(folder / "java.properties", _lines(both | java))


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _write(file: Path, text: str) -> None:
    """Only its owner may read it: it has a key or a password."""
    file.touch(mode=0o600)
    file.write_text(text)
