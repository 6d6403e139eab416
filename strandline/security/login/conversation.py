"""A login at its client: messages out, messages in, until both ends have proved what they have to."""

from __future__ import annotations

from collections.abc import Generator

from strandline.errors import AuthenticationFailed
from strandline.security.login.mechanisms import OAUTHBEARER, SECRETS_SENT
from strandline.security.login.oauthbearer import token_message
from strandline.security.login.plain import plain_message
from strandline.security.login.scram import ScramClient

Conversation = Generator[bytes, bytes, None]
"""Yields each message to the server, and is sent the server's answer to it. It returns once the server has
proved itself, if the mechanism makes it do so. Raises AuthenticationFailed for a server that does not."""


def conversation(mechanism: str, name: str, secret: str, nonce: str) -> Conversation:
    """`secret`: the password, or the token with OAUTHBEARER, which needs no name. `nonce`: random, printable,
    without commas; SCRAM uses it. With SCRAM the second message takes some milliseconds of work. Raises
    InvalidRequest for a name or a secret that no login allows."""
    if mechanism in SECRETS_SENT:
        yield token_message(secret) if mechanism == OAUTHBEARER else plain_message(name, secret)
        return
    client = ScramClient(mechanism, name, secret, nonce)
    server_first = yield client.first()
    server_final = yield client.final(server_first)
    client.check(server_final)


def next_message(messages: Conversation, answer: bytes | None) -> bytes | None:
    """The next message, after the server's answer to the last one: None before the first. None: the
    conversation is over. Raises as `conversation`."""
    try:
        return next(messages) if answer is None else messages.send(answer)
    except StopIteration:
        return None


def check_end(message: bytes | None, session: str) -> bool:
    """Whether the login is over. Raises AuthenticationFailed if only one end thinks so."""
    if (message is None) is not bool(session):
        raise AuthenticationFailed("the server ended the login too early, or not at all")
    return message is None
