"""Passwords on the command line: where they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.strandline.cli.support.cli_process import strandline

COMMANDS = pytest.mark.parametrize("command", ["set", "bootstrap"])


def with_mode(file: Path, text: str, mode: int) -> str:
    file.write_text(text)
    file.chmod(mode)
    return str(file)


@COMMANDS
async def test_without_a_terminal_a_password_is_in_a_file(command: str) -> None:
    """A11: a password in a pipe is not taken for an answer."""
    ended = await strandline("user", command, "alice", stdin=b"secret-1\nsecret-1\n")
    assert ended.status == 2 and "use --password-file FILE" in ended.err
    assert "Warning" not in ended.err


@COMMANDS
async def test_a_file_with_a_password_is_not_for_other_users(command: str, tmp_path: Path) -> None:
    """A10"""
    file = with_mode(tmp_path / "password", "secret-1\n", 0o644)
    ended = await strandline("user", command, "alice", "--password-file", file)
    assert ended.status == 1 and f"password file '{file}': other users may read it" in ended.err


async def test_client_settings_with_a_password_are_not_for_other_users(tmp_path: Path) -> None:
    """A10: without a password everyone may read them."""
    at = ("topic", "list", "--bootstrap", "127.0.0.1:1", "--command-config")
    public = with_mode(tmp_path / "public.toml", 'sasl_username = "alice"\n', 0o644)
    assert "needs security_protocol" in (await strandline(*at, public)).err
    file = with_mode(tmp_path / "client.toml", 'sasl_password = "secret-1"\n', 0o644)
    ended = await strandline(*at, file)
    assert ended.status == 1 and f"'{file}': other users may read it: chmod 600" in ended.err
