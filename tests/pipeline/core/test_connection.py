"""The options that reach a cluster (docs/use/spark.md): the settings of clients, and never a secret."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.errors import SettingsError
from strandline.pipeline.core.connection import Connection, connection, security_options
from strandline.pipeline.core.options import source_options
from strandline.pipeline.core.sink_options import sink_options
from strandline.pipeline.errors import InvalidOption

PAIR = (("ssl_certfile", "/c"), ("ssl_keyfile", "/k"))


@pytest.mark.parametrize("prefix", ["", "kafka.", "KAFKA."])
def test_security_options_have_kafkas_names(prefix: str) -> None:
    given = {
        f"{prefix}security.protocol": "SSL",
        f"{prefix}ssl.certfile": "/c",
        f"{prefix}ssl.KEYFILE": " /k ",
    }
    found = Connection("b:1", (("security_protocol", "SSL"), *PAIR))
    assert connection({"bootstrap": "b:1", **given}) == found
    read = source_options({"bootstrap": "b:1", "subscribe": "t", **given}, stream=True)
    assert (read.connection, sink_options({"bootstrap": "b:1", **given}).connection) == (found, found)


def test_settings_of_a_client_become_options_and_settings_again() -> None:
    reaching = Connection.of("b:1", {"ssl_keyfile": "/k", "ssl_certfile": "/c"})
    assert connection(reaching.options) == reaching
    assert reaching.settings == dict(PAIR)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security.protocol": "TLS"}, "setting security_protocol = 'TLS'"),
        ({"ssl.certfile": "/c"}, "set both ssl_certfile and ssl_keyfile"),
        ({"ssl.cafile": "/a", "kafka.ssl.cafile": "/b"}, "give one of them"),
        ({"kafka.ssl.truststore.location": "/a"}, "settings of Kafka's clients mean nothing here"),
    ],
)
def test_senseless_security_options_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        source_options({"bootstrap": "b:1", "subscribe": "t", **given}, stream=False)


@pytest.mark.parametrize(
    "name", ["sasl.password", "kafka.sasl.password", "ssl.keyfile.password", "sasl_token"]
)
@pytest.mark.parametrize(
    "parse", [sink_options, lambda given: source_options({"subscribe": "t", **given}, stream=False)]
)
def test_a_secret_is_no_option(name: str, parse: Any) -> None:
    """It would stand in the query plan. The error does not show it either."""
    with pytest.raises(InvalidOption, match="put the secret into a file") as refused:
        parse({"bootstrap": "b:1", name: "the-secret"})
    assert "the-secret" not in str(refused.value)


def test_settings_with_a_secret_reach_no_task() -> None:
    """Others that are not about security are left out."""
    assert Connection.of("b:1", {"request_timeout_ms": 5, **dict(PAIR)}).security == PAIR
    with pytest.raises(SettingsError, match="sasl_password_file") as refused:
        Connection.of("b:1", {"sasl_password": "the-secret"})
    assert "the-secret" not in refused.value.message


def test_every_file_of_a_client_has_an_option() -> None:
    known = set(security_options())
    assert {
        "security.protocol",
        "ssl.cafile",
        "ssl.certfile",
        "ssl.keyfile",
        "ssl.keyfile.password.file",
    } <= known
