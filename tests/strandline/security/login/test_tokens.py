"""Tokens that count, and those that do not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from strandline.security.login.tokens import (
    KEYS_MAX,
    LEEWAY_S,
    READ_AGAIN_S,
    TOKEN_CHARS_MAX,
    TRIES_S_MIN,
    InvalidToken,
    KeyTimes,
    TokenRules,
    TokenUser,
    UnknownKey,
    UnusableKeys,
    parse_keys,
    verified,
)
from tests.issuer import AUDIENCE, ISSUER, Issuer

NOW = 1_000_000.5
END = 1_000_100
ONE = Issuer()
KEYS = parse_keys(ONE.jwks)
RULES = TokenRules(ISSUER, AUDIENCE, "sub", ("RS256", "ES256", "EdDSA"))


def why(token: str, rules: TokenRules = RULES, now: float = NOW) -> str:
    with pytest.raises(InvalidToken) as error:
        verified(token, rules, KEYS, now)
    return str(error.value)


def with_header(header: dict[str, Any], *, claims: dict[str, Any] | None = None, sign: Any = None) -> str:
    """A token with any header, as no library makes it."""
    parts = [header, claims or {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": END}]
    signed = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    signature = b"" if sign is None else sign(signed)
    return (signed + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


@pytest.mark.parametrize("algorithm", RULES.algorithms)
def test_a_token_is_of_its_user_until_it_ends(algorithm: str) -> None:
    """A16"""
    token = ONE.token(END, algorithm=algorithm)
    assert verified(token, RULES, KEYS, NOW) == TokenUser("alice", END + LEEWAY_S)


def test_a_token_counts_in_its_time_alone() -> None:
    """A16: the clocks of two machines may differ by the leeway."""
    token = ONE.token(END, nbf=NOW)
    assert verified(token, RULES, KEYS, END + LEEWAY_S - 0.1).name == "alice"
    assert "expired 30 s ago" in why(token, now=END + LEEWAY_S)
    assert verified(token, RULES, KEYS, NOW - LEEWAY_S).name == "alice"
    assert "begins in 31 s" in why(token, now=NOW - LEEWAY_S - 1)
    for wrong in ("soon", True, -1, 1e300, float("nan"), float("inf")):
        assert "exp is no time" in why(with_signature({"exp": wrong}))
        assert "nbf is no time" in why(with_signature({"nbf": wrong}))


def with_signature(claims: dict[str, Any]) -> str:
    """Signed by the key, with any claims."""
    header = {"alg": "ES256", "kid": ONE.kid("ES256")}
    key = ECAlgorithm(ECAlgorithm.SHA256)
    given = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": END, **claims}
    return with_header(header, claims=given, sign=lambda signed: key.sign(signed, ONE.keys["ES256"]))


def test_a_token_is_of_this_issuer_for_this_audience() -> None:
    """A16"""
    assert "another audience" in why(ONE.token(END, aud="waves"))
    assert verified(ONE.token(END, aud=["waves", AUDIENCE]), RULES, KEYS, NOW).name == "alice"
    assert "another issuer" in why(ONE.token(END, iss="https://other.example"))
    for missing in ("exp", "iss", "aud"):
        claims: dict[str, Any] = {missing: None}
        assert "malformed (MissingRequiredClaimError)" in why(ONE.token(**{"ends_at": END, **claims}))


def test_the_signature_decides() -> None:
    """A16: a key of another issuer with the same id is not this one's."""
    assert "signature" in why(Issuer().token(END))
    head, claims, signature = ONE.token(END).split(".")
    _, others, _ = ONE.token(END, sub="bob").split(".")
    assert "signature" in why(f"{head}.{others}.{signature}")
    assert why(f"{head}.{claims}.")


def test_a_token_does_not_choose_how_it_is_checked() -> None:
    """A16: not by none, nor by a public key as if it were a secret, nor by an algorithm of another key."""
    public = ONE.keys["RS256"].public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    kid = ONE.kid("RS256")
    everything = replace(RULES, algorithms=(*RULES.algorithms, "PS256", "ES384"))
    for algorithm in ("none", "None", "HS256", "RS512", "", None, 5, ["RS256"]):
        forged = with_header(
            {"alg": algorithm, "kid": kid}, sign=lambda signed: hmac.digest(pem, signed, hashlib.sha256)
        )
        assert "algorithm is none of" in why(forged) or "malformed" in why(forged)
    assert "not for ES256" in why(ONE.token(END, algorithm="ES256", headers={"kid": kid}))
    assert "not for RS256" in why(ONE.token(END, headers={"kid": ONE.kid("ES256")}))
    other_curve = ec.generate_private_key(ec.SECP384R1())
    token = ONE.token(END, algorithm="ES384", key=other_curve, headers={"kid": ONE.kid("ES256")})
    assert "not for ES384" in why(token, everything)


def test_the_key_is_one_of_the_set() -> None:
    """A16: no key comes with a token."""
    with pytest.raises(UnknownKey):
        verified(Issuer(2).token(END), RULES, KEYS, NOW)
    assert "names no key" in why(ONE.token(END, headers={"kid": None}))
    own = rsa.generate_private_key(65_537, 2_048)
    jwk = json.loads(RSAAlgorithm.to_jwk(own.public_key()))
    assert "signature" in why(ONE.token(END, key=own, headers={"jwk": jwk}))
    assert "malformed" in why(ONE.token(END, headers={"crit": ["x"], "x": 1}))


def test_only_names_that_users_may_have_are_names() -> None:
    """A16"""
    for name in ("", "a" * 250, "a\nb", "*", "User:bob", 7, None, ["alice"]):
        assert why(with_signature({"sub": name}))
    by_mail = replace(RULES, name_claim="email")
    assert verified(ONE.token(END, email="bob@tides"), by_mail, KEYS, NOW).name == "bob@tides"
    assert "email is no name" in why(ONE.token(END), by_mail)


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "a.b.c", with_header({"alg": "RS256", "kid": "x"}) + ".x"],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    """A16"""
    assert why(token)


def test_a_token_has_a_size() -> None:
    """A16"""
    long = ONE.token(END, padding="x" * TOKEN_CHARS_MAX)
    assert f"more than {TOKEN_CHARS_MAX} characters" in why(long)


def test_deep_json_is_refused() -> None:
    """A16"""
    deep = base64.urlsafe_b64encode(b"[" * 9_000).decode().rstrip("=")
    assert why(f"{deep}.{deep}.x")


def test_a_set_has_public_keys_for_signatures() -> None:
    """A16: of a pair, only the public half is kept."""
    listed = json.loads(ONE.jwks)["keys"]
    private = json.loads(RSAAlgorithm.to_jwk(ONE.keys["RS256"])) | {"kid": "private"}
    others = [
        {"kty": "oct", "kid": "shared", "k": "c2VjcmV0"},
        {**listed[0], "kid": "for-encryption", "use": "enc"},
        {**listed[0], "kid": None},
        {**listed[0], "kid": "of-one-algorithm", "alg": "RS512"},
        private,
        "x",
    ]
    keys = parse_keys(json.dumps({"keys": [*listed, *others]}).encode())
    assert keys.keys() == {*KEYS, "of-one-algorithm", "private"}
    assert keys["private"].fields.keys() == {"kty", "n", "e"}
    with pytest.raises(InvalidToken, match="not for RS256"):
        keys["of-one-algorithm"].usable("RS256")
    many = [{**listed[0], "kid": str(number)} for number in range(KEYS_MAX + 1)]
    assert len(parse_keys(json.dumps({"keys": many}).encode())) == KEYS_MAX


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"[]", b"{}", b'{"keys": 1}', b'{"keys": []}', b'{"keys": ' + b"[" * 100_000]
)
def test_what_is_no_set_is_refused(data: bytes) -> None:
    """A16"""
    with pytest.raises(UnusableKeys):
        parse_keys(data)


def test_a_broken_key_is_no_key() -> None:
    """A16"""
    keys = parse_keys(json.dumps({"keys": [{"kty": "RSA", "kid": "a", "n": 5}]}).encode())
    with pytest.raises(InvalidToken, match="cannot be used"):
        keys["a"].usable("RS256")


def test_keys_are_read_each_hour_and_for_an_unknown_one() -> None:
    """A16: at most once in ten seconds, whether it succeeds or not."""
    times = KeyTimes()
    assert times.due(0, unknown=False)
    times.tried_at = 0
    assert not times.due(TRIES_S_MIN - 1, unknown=True)
    assert times.due(TRIES_S_MIN, unknown=False)
    times.tried_at = times.read_at = TRIES_S_MIN
    assert not times.due(2 * TRIES_S_MIN - 1, unknown=True)
    assert times.due(2 * TRIES_S_MIN, unknown=True)
    assert not times.due(READ_AGAIN_S, unknown=False)
    assert times.due(READ_AGAIN_S + TRIES_S_MIN, unknown=False)
