"""A plugin of pytest: gives aiokafka's tests the brokers that INTEROP_KAFKA names, not a container's."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest


class Nothing:
    """Stands for what only tests of TLS, SASL and ACLs use."""


def given(name: str) -> Any:
    """The value of a fixture that would start a container or ask it."""
    if name == "kafka_server":
        addresses = os.environ["INTEROP_KAFKA"].split(",")
        host, _, port = addresses[0].rpartition(":")
        return SimpleNamespace(
            host=host, port=int(port), hosts=[f"{host}:{port}"], container=None,
            ssl_port=0, sasl_plain_port=0, sasl_ssl_port=0,
        )  # fmt: skip
    return Nothing()


REPLACED = frozenset({"docker", "kafka_image", "ssl_folder", "kafka_server", "kerberos_utils"})


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Any:
    """Answers for the fixtures that need a container."""
    if fixturedef.argname not in REPLACED:
        return None
    value = given(fixturedef.argname)
    fixturedef.cached_result = (value, fixturedef.cache_key(request), None)
    return value
