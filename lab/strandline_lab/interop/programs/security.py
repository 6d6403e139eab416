"""The settings with which a program's client proves who it is. INTEROP_SECURITY names their folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

_IN_PYTHON: Final = {
    "security.protocol": "security_protocol",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}


def librdkafka_file() -> Path | None:
    """A file with settings of librdkafka; None for a cluster in plaintext."""
    folder = os.environ.get("INTEROP_SECURITY")
    return None if folder is None else Path(folder) / "librdkafka.properties"


def of_librdkafka() -> dict[str, str]:
    """Its settings."""
    file = librdkafka_file()
    lines = [] if file is None else file.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def of_kafka_python() -> dict[str, Any]:
    """Arguments of its classes."""
    return {_IN_PYTHON[name]: value for name, value in of_librdkafka().items()}


def of_aiokafka() -> dict[str, Any]:
    """The same, with the files of certificates as a context."""
    from aiokafka.helpers import create_ssl_context

    given = of_kafka_python()
    if not given:
        return {}
    files = ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
    context = create_ssl_context(**{name.removeprefix("ssl_"): given.pop(name, None) for name in files})
    return given | {"ssl_context": context}
