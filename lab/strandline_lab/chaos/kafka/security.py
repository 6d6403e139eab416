"""How Kafka clients of a round connect: the settings of strandline's clients, as their libraries say it."""

from __future__ import annotations

import ssl
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Certified:
    """The files of a client that shows a certificate."""

    cafile: str
    certfile: str
    keyfile: str

    @classmethod
    def read(cls, path: Path) -> Self:
        """The files that a file of `--command-config` names. Raises OSError, ValueError, KeyError."""
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
        return cls(settings["ssl_cafile"], settings["ssl_certfile"], settings["ssl_keyfile"])

    @property
    def for_librdkafka(self) -> Mapping[str, Any]:
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": self.cafile,
            "ssl.certificate.location": self.certfile,
            "ssl.key.location": self.keyfile,
        }

    @property
    def for_aiokafka(self) -> Mapping[str, Any]:
        context = ssl.create_default_context(cafile=self.cafile)
        context.load_cert_chain(self.certfile, self.keyfile)
        return {"security_protocol": "SSL", "ssl_context": context}
