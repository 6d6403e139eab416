"""The settings of a client that logs in by name and password (SASL).

Names are Kafka's, with `_` for `.`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import ConfigDict, Field, SecretStr, model_validator

from strandline.config.security import SASL_SSL, WITH_LOGINS, SecuritySettings
from strandline.security.login.mechanisms import PLAIN


class LoginSettings(SecuritySettings):
    """How a client opens connections, and who it says it is."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    sasl_mechanism: str | None = Field(default=None, pattern="^(SCRAM-SHA-512|SCRAM-SHA-256|PLAIN)$")
    """How the client logs in, while `security_protocol` is SASL_SSL or SASL_PLAINTEXT."""
    sasl_username: str | None = None
    """The name of the user."""
    sasl_password: SecretStr | None = None
    """The password of the user. No log and no error shows it."""
    sasl_password_file: Path | None = None
    """A file with the password in its first line, in place of `sasl_password`. Other users must not be able
    to read it. It is read for each login."""

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        needed = {"sasl_mechanism": self.sasl_mechanism, "sasl_username": self.sasl_username}
        passwords = (self.sasl_password, self.sasl_password_file)
        if self.security_protocol not in WITH_LOGINS:
            if any(value is not None for value in (*needed.values(), *passwords)):
                raise ValueError("sasl_* needs security_protocol = SASL_SSL or SASL_PLAINTEXT")
            return self
        for name, value in needed.items():
            if not value:
                raise ValueError(f"security_protocol = {self.security_protocol} needs {name}")
        if sum(password is not None for password in passwords) != 1:
            raise ValueError("set sasl_password or sasl_password_file")
        if self.sasl_mechanism == PLAIN and self.security_protocol != SASL_SSL:
            raise ValueError("PLAIN sends the password itself: it needs security_protocol = SASL_SSL")
        return self
