"""Issues tokens, as a server of OAuth does."""

from __future__ import annotations

import json
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from strandline.adapters.token_keys import TokenKeys
from strandline.ports import Clock
from strandline.security.login.tokens import TokenRules

ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "tides"


class Issuer:
    """With one key for each of three algorithms; its id is the algorithm's name and a number."""

    def __init__(self, number: int = 1) -> None:
        self._number = number
        self.keys: dict[str, Any] = {
            "RS256": rsa.generate_private_key(65_537, 2_048),
            "ES256": ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate(),
        }

    def kid(self, algorithm: str) -> str:
        return f"{algorithm}-{self._number}"

    @property
    def jwks(self) -> bytes:
        """The public keys (RFC 7517)."""
        of: dict[str, Any] = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}
        keys = [
            {**json.loads(of[name].to_jwk(key.public_key())), "kid": self.kid(name), "use": "sig"}
            for name, key in self.keys.items()
        ]
        return json.dumps({"keys": keys}).encode()

    def token_keys(self, clock: Clock) -> TokenKeys:
        """With which a server takes this issuer's tokens of ES256."""
        rules = TokenRules(ISSUER, AUDIENCE, "sub", ("ES256",))
        return TokenKeys(rules, lambda: self.jwks, "keys", clock, needed_at_start=True)

    def token(
        self,
        ends_at: float,
        *,
        algorithm: str = "RS256",
        key: Any = None,
        headers: dict[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """A token of alice. A claim or a header that is None is left out."""
        given = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": ends_at, **claims}
        shown = {"kid": self.kid(algorithm), **(headers or {})}
        return jwt.encode(
            {name: value for name, value in given.items() if value is not None},
            self.keys[algorithm] if key is None else key,
            algorithm,
            {name: value for name, value in shown.items() if value is not None},
        )


def bearer(token: str, start: str = "n,,") -> bytes:
    """The message of a client (RFC 7628)."""
    return f"{start}\x01auth=Bearer {token}\x01\x01".encode()
