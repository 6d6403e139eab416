"""The settings of a client that logs in (SASL).

Names are Kafka's, with `_` for `.`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Self

from pydantic import ConfigDict, Field, SecretStr, model_validator

from strandline.config.security import SASL_SSL, WITH_LOGINS, SecuritySettings
from strandline.security.login.mechanisms import OAUTHBEARER, SECRETS_SENT
from strandline.security.login.oauthbearer import OauthToken

TokenProvider = Callable[[], Awaitable[OauthToken]]
"""Gives a token that counts now. What it raises is a refused login."""

_OF_LOGINS: Final = (
    "sasl_mechanism",
    "sasl_username",
    "sasl_password",
    "sasl_password_file",
    "sasl_oauth_token_file",
    "sasl_oauth_token_provider",
)
_NEEDED: Final = {
    False: ({"sasl_username", "sasl_password"}, {"sasl_username", "sasl_password_file"}),
    True: ({"sasl_oauth_token_file"}, {"sasl_oauth_token_provider"}),
}
"""What has to be given, and nothing else, by whether it is a token."""
_NEEDS: Final = {
    False: "{} needs sasl_username, and sasl_password or sasl_password_file, and no token",
    True: "{} needs sasl_oauth_token_file or sasl_oauth_token_provider, not both, and no name or password",
}


class LoginSettings(SecuritySettings):
    """How a client opens connections, and who it says it is."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    sasl_mechanism: str | None = Field(
        default=None, pattern="^(SCRAM-SHA-512|SCRAM-SHA-256|PLAIN|OAUTHBEARER)$"
    )
    """How the client logs in, while `security_protocol` is SASL_SSL or SASL_PLAINTEXT."""
    sasl_username: str | None = None
    """The name of the user."""
    sasl_password: SecretStr | None = None
    """The password of the user. No log and no error shows it."""
    sasl_password_file: Path | None = None
    """A file with the password in its first line, in place of `sasl_password`. Other users must not be able
    to read it. It is read for each login."""
    sasl_oauth_token_file: Path | None = None
    """For OAUTHBEARER: a file with a token in its first line, in place of a name and a password. Other users
    must not be able to read it. It is read for each login: replace a token before it ends."""

    sasl_oauth_token_provider: TokenProvider | None = None
    """In place of `sasl_oauth_token_file`: a coroutine function without arguments that returns an
    `OauthToken`. It is called on the event loop of the client, for a login after four fifths of the last
    token's time, and has ten seconds."""
    authentication_retry_ms: int = Field(default=60_000, ge=0)
    """How long a client that was let in before tries again where it is refused: for a password, a token or a
    certificate. Then it ends with AuthenticationFailed. A client that was never let in ends at once."""

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        given = {name for name in _OF_LOGINS if getattr(self, name)}
        protocol, mechanism = self.security_protocol, self.sasl_mechanism
        if protocol not in WITH_LOGINS:
            if given:
                raise ValueError("sasl_* needs security_protocol = SASL_SSL or SASL_PLAINTEXT")
            return self
        if mechanism is None:
            raise ValueError(f"security_protocol = {protocol} needs sasl_mechanism")
        if given - {"sasl_mechanism"} not in _NEEDED[mechanism == OAUTHBEARER]:
            raise ValueError(_NEEDS[mechanism == OAUTHBEARER].format(mechanism))
        if mechanism in SECRETS_SENT and protocol != SASL_SSL:
            raise ValueError(f"{mechanism} sends the secret itself: it needs security_protocol = SASL_SSL")
        return self
