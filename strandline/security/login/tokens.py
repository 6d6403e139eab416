"""Signed tokens (RFC 7519): whether one counts now, and whose it is. PyJWT checks signatures.

The key is one of a set that the broker has (RFC 7517), and the algorithm one of the settings: a token never
chooses them. Reasons are for the server's log, and show nothing of the token.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from strandline.errors import InvalidRequest
from strandline.security.login.mechanisms import check_new_user_name

LEEWAY_S: Final = 30
"""The clocks of a token's issuer and of a broker may differ by this."""
TOKEN_CHARS_MAX: Final = 16_384
SET_BYTES_MAX: Final = 512 * 1024
KEYS_MAX: Final = 100
"""Keys of a set; the others are not used."""
TIME_MAX: Final = 2**53
"""Numbers beyond it are no time: they are not exact in every JSON."""

CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}
"""The curve of each algorithm that has one."""
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", *CURVES)
"""Those with a key pair. Without one, who can check a token can make it."""
_PUBLIC_FIELDS: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}

_MALFORMED: Final = (ValueError, TypeError, KeyError, RecursionError)
"""What the JSON of a stranger may raise."""


class InvalidToken(Exception):
    """Why a token does not count."""


class UnknownKey(InvalidToken):
    """The token names a key that the set does not have: a newer set may."""


class UnusableKeys(Exception):
    """Why something is no set of keys."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Which tokens count."""

    issuer: str
    audience: str
    name_claim: str
    """The claim with the user's name."""
    algorithms: Collection[str]


@dataclass(frozen=True, slots=True)
class TokenUser:
    """Whose token it is."""

    name: str
    ends_at: float
    """In seconds since the epoch: until then it counts."""


@dataclass(frozen=True, slots=True)
class TokenKey:
    """One public key of a set."""

    fields: Mapping[str, Any]
    algorithm: str | None
    """The only one that the key is for, if its set says so."""

    def usable(self, algorithm: str) -> Any:
        """The key as PyJWT takes it. Raises InvalidToken if it is for another algorithm."""
        import jwt

        curve = CURVES.get(algorithm)
        if (
            self.algorithm not in (None, algorithm)
            or self.fields["kty"] != _TYPES[algorithm[:2]]
            or (curve is not None and self.fields.get("crv") != curve)
        ):
            raise InvalidToken(f"its key is not for {algorithm}")
        try:
            return jwt.PyJWK(dict(self.fields), algorithm)
        except (jwt.PyJWTError, *_MALFORMED):
            raise InvalidToken("its key cannot be used") from None


def check_size(data: bytes | bytearray) -> None:
    """Raises UnusableKeys for more than a set of keys may have."""
    if len(data) > SET_BYTES_MAX:
        raise UnusableKeys(f"it has more than {SET_BYTES_MAX} bytes")


def parse_keys(data: bytes) -> dict[str, TokenKey]:
    """The public keys of a set for signatures, by their ids. Raises UnusableKeys if there are none."""
    try:
        listed = [each for each in json.loads(data)["keys"] if isinstance(each, dict)]
    except _MALFORMED:
        raise UnusableKeys("it is no JSON Web Key Set") from None
    found: dict[str, TokenKey] = {}
    for each in listed[:KEYS_MAX]:
        kid, kind, algorithm = each.get("kid"), each.get("kty"), each.get("alg")
        if (
            not isinstance(kid, str)
            or not isinstance(kind, str)
            or kind not in _PUBLIC_FIELDS
            or each.get("use", "sig") != "sig"
            or not isinstance(algorithm, str | None)
        ):
            continue
        public = {name: each[name] for name in ("kty", *_PUBLIC_FIELDS[kind]) if name in each}
        found.setdefault(kid, TokenKey(public, algorithm))
    if not found:
        raise UnusableKeys("it has no public key with an id for signatures")
    return found


def verified(token: str, rules: TokenRules, keys: Mapping[str, TokenKey], now: float) -> TokenUser:
    """Whose token it is. `now`: seconds since the epoch. Raises InvalidToken, and UnknownKey."""
    import jwt

    if len(token) > TOKEN_CHARS_MAX:
        raise InvalidToken(f"it has more than {TOKEN_CHARS_MAX} characters")
    try:
        algorithm, kid = _header(jwt.get_unverified_header(token), rules)
        key = keys.get(kid)
        if key is None:
            raise UnknownKey("the set of keys does not have its key")
        claims = jwt.decode(
            token,
            key.usable(algorithm),
            algorithms=[algorithm],
            audience=rules.audience,
            issuer=rules.issuer,
            options={
                "require": ["exp", "iss", "aud"],
                # Of times only `now` decides.
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
                "enforce_minimum_key_length": True,
            },
        )
    except jwt.InvalidSignatureError:
        raise InvalidToken("its signature is wrong") from None
    except jwt.InvalidAudienceError:
        raise InvalidToken("it is for another audience") from None
    except jwt.InvalidIssuerError:
        raise InvalidToken("it is of another issuer") from None
    except (jwt.PyJWTError, *_MALFORMED) as error:
        raise InvalidToken(f"it is malformed ({type(error).__name__})") from None
    return TokenUser(_name(claims, rules.name_claim), _end(claims, now))


def _header(header: Mapping[str, Any], rules: TokenRules) -> tuple[str, str]:
    """The algorithm, and the id of the key."""
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in rules.algorithms:
        raise InvalidToken(f"its algorithm is none of {', '.join(rules.algorithms)}")
    if not isinstance(kid, str):
        raise InvalidToken("it names no key (kid)")
    return algorithm, kid


def _end(claims: Mapping[str, Any], now: float) -> float:
    """When the token ends, the leeway included."""
    end = _time(claims["exp"], "exp") + LEEWAY_S
    if now >= end:
        raise InvalidToken(f"it expired {now - end + LEEWAY_S:.0f} s ago")
    begin = _time(claims.get("nbf", 0), "nbf") - LEEWAY_S
    if now < begin:
        raise InvalidToken(f"it begins in {begin - now + LEEWAY_S:.0f} s")
    return end


def _time(value: object, claim: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= TIME_MAX:
        raise InvalidToken(f"its {claim} is no time")
    return value


def _name(claims: Mapping[str, Any], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str):
        raise InvalidToken(f"its claim {claim} is no name")
    try:
        check_new_user_name(name)
    except InvalidRequest:
        raise InvalidToken(f"its claim {claim} is no name that a user may have") from None
    return name


# --- when the set is read -----------------------------------------------------------------------

READ_AGAIN_S: Final = 3_600.0
TRIES_S_MIN: Final = 10.0


@dataclass(slots=True)
class KeyTimes:
    """When the set of keys is read again. Times are in monotonic seconds."""

    read_at: float | None = None
    tried_at: float | None = None

    def due(self, now: float, *, unknown: bool) -> bool:
        """`unknown`: a token names a key that the set does not have."""
        rested = self.tried_at is None or now - self.tried_at >= TRIES_S_MIN
        old = self.read_at is None or now - self.read_at >= READ_AGAIN_S
        return rested and (old or unknown)
