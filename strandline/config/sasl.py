"""The settings of logins by name and password, or by token (SASL), of brokers and controllers.

Names are Kafka's, with `_` for `.`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from strandline.config.oauth import OauthSettings
from strandline.config.security import SASL_PLAINTEXT, WITH_LOGINS
from strandline.errors import InvalidRequest
from strandline.security.login.mechanisms import OAUTHBEARER, SECRETS_SENT, parse_mechanisms


class SaslSettings(OauthSettings):
    """How callers log in."""

    model_config = ConfigDict(defer_build=True)

    sasl_enabled_mechanisms: str = ""
    """The mechanisms of ports with SASL, with commas between them: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN,
    OAUTHBEARER."""
    connections_max_reauth_ms: int = Field(default=3_600_000, ge=0)
    """A login counts for this time; clients renew it before. 0: as long as its connection."""
    sasl_sessions_max: int = Field(default=10_000, ge=1)
    """Connections of strandline's own clients that are logged in. Beyond it one of the user that has
    most has to log in again: the one that was used least recently."""

    @field_validator("sasl_enabled_mechanisms")
    @classmethod
    def _known(cls, text: str) -> str:
        try:
            parse_mechanisms(text)
        except InvalidRequest as error:
            raise ValueError(error.message) from None
        return text

    @model_validator(mode="after")
    def _can_check_tokens(self) -> Self:
        if OAUTHBEARER in self.mechanisms:
            self.check_tokens_can_be_checked()
        return self

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return parse_mechanisms(self.sasl_enabled_mechanisms)


def check_mechanisms(settings: SaslSettings, protocols: Mapping[str, str]) -> None:
    """Raises ValueError if a port with SASL cannot log anyone in, or would let passwords be read. `protocols`
    has the protocol of each port, by its setting."""
    for port, protocol in protocols.items():
        if protocol not in WITH_LOGINS:
            continue
        if not settings.mechanisms:
            raise ValueError(f"{port} has {protocol}, which needs sasl_enabled_mechanisms")
        sent = [each for each in settings.mechanisms if each in SECRETS_SENT]
        if protocol == SASL_PLAINTEXT and sent:
            raise ValueError(
                f"sasl_enabled_mechanisms has {sent[0]}, and {port} is not encrypted: everyone on the network"
                " could read the passwords or tokens. Use SCRAM-SHA-512, or SASL_SSL"
            )
