"""A login at its client: messages out, messages in, until both ends have proved what they have to."""

from __future__ import annotations

from collections.abc import Generator

from strandline.errors import AuthenticationFailed
from strandline.security.login.mechanisms import PLAIN
from strandline.security.login.plain import plain_message
from strandline.security.login.scram import ScramClient

Conversation = Generator[bytes, bytes, None]
"""Yields each message to the server, and is sent the server's answer to it. It returns once the server has
proved itself, if the mechanism makes it do so. Raises AuthenticationFailed for a server that does not."""


def conversation(mechanism: str, name: str, password: str, nonce: str) -> Conversation:
    """`nonce`: random, printable, without commas; SCRAM uses it. With SCRAM the second message takes some
    milliseconds of work. Raises InvalidRequest for a name or a password that no login allows."""
    if mechanism == PLAIN:
        yield plain_message(name, password)
        return
    client = ScramClient(mechanism, name, password, nonce)
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
