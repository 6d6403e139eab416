"""The settings of logins by token (OAUTHBEARER, KIP-768), of brokers and controllers.

Names are Kafka's, with `_` for `.`, where Kafka has them.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from strandline.config.security import is_loopback
from strandline.security.login.mechanisms import listed
from strandline.security.login.tokens import ALGORITHMS, TokenRules


class OauthSettings(BaseModel):
    """Which tokens count. Each of them has to name an issuer, an audience, an end and a key."""

    model_config = ConfigDict(defer_build=True)

    sasl_oauthbearer_jwks_file: Path | None = None
    """A file with the public keys of the issuer, a JSON Web Key Set."""
    sasl_oauthbearer_jwks_url: str | None = None
    """The address of that set, in place of a file: https, or http on the loopback address."""
    sasl_oauthbearer_expected_issuer: str | None = None
    """What tokens have as `iss`."""
    sasl_oauthbearer_expected_audience: str | None = None
    """What tokens have as `aud`, or among others there."""
    sasl_oauthbearer_sub_claim_name: str = Field(default="sub", min_length=1)
    """The claim with the user's name."""
    sasl_oauthbearer_algorithms: str = Field(default="RS256,ES256,EdDSA", validate_default=True)
    """The algorithms that a token may be signed by, with commas between them; none with a shared key."""

    @field_validator("sasl_oauthbearer_jwks_url")
    @classmethod
    def _cannot_be_changed_on_its_way(cls, url: str | None) -> str | None:
        if url is None:
            return url
        parts = urlsplit(url)
        if not parts.hostname or (
            parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname))
        ):
            raise ValueError("keys come over https, or http from the loopback address")
        if parts.username is not None or parts.password is not None:
            raise ValueError("the address is written to the log: leave names and passwords out")
        return url

    @field_validator("sasl_oauthbearer_algorithms")
    @classmethod
    def _need_a_key_pair(cls, text: str) -> str:
        found = listed(text)
        if not found:
            raise ValueError("name at least one algorithm")
        for name in found:
            if name not in ALGORITHMS:
                raise ValueError(f"{name!r} is none of {', '.join(ALGORITHMS)}")
        return text

    def check_tokens_can_be_checked(self) -> None:
        """Raises ValueError if a setting is missing that OAUTHBEARER needs."""
        if (self.sasl_oauthbearer_jwks_file is None) == (self.sasl_oauthbearer_jwks_url is None):
            raise ValueError(
                "OAUTHBEARER needs the issuer's keys: set sasl_oauthbearer_jwks_file or"
                " sasl_oauthbearer_jwks_url, not both"
            )
        for name in ("sasl_oauthbearer_expected_issuer", "sasl_oauthbearer_expected_audience"):
            if not getattr(self, name):
                raise ValueError(f"OAUTHBEARER needs {name}: tokens of others would count, too")

    def token_rules(self) -> TokenRules:
        """Of settings with OAUTHBEARER."""
        return TokenRules(
            self.sasl_oauthbearer_expected_issuer or "",
            self.sasl_oauthbearer_expected_audience or "",
            self.sasl_oauthbearer_sub_claim_name,
            listed(self.sasl_oauthbearer_algorithms),
        )
