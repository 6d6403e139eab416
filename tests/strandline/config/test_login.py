"""The settings with which a client logs in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strandline.adapters.rpc.logins.of_client import ClientLogin
from strandline.adapters.system.clock import SystemClock
from strandline.config.client import ClientSettings
from strandline.config.load import load
from strandline.errors import SettingsError

BY_NAME = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "alice"}
BY_TOKEN = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
PASSWORD = {"sasl_password": "wonderland-1"}
FILE = {"sasl_password_file": "password"}
TOKEN = {"sasl_oauth_token_file": "token"}
PROVIDER = {"sasl_oauth_token_provider": lambda: None}
OPEN = {"security_protocol": "SASL_PLAINTEXT"}


@pytest.mark.parametrize(
    "given",
    [{}, {**BY_NAME, **PASSWORD}, {**BY_NAME, **FILE}, {**BY_TOKEN, **TOKEN}, {**BY_TOKEN, **PROVIDER}],
)
def test_settings_that_fit_together(given: dict[str, Any]) -> None:
    load(ClientSettings, **given)


@pytest.mark.parametrize(
    "given, why",
    [
        ({**PASSWORD}, "needs security_protocol"),
        ({"security_protocol": "SASL_SSL"}, "needs sasl_mechanism"),
        (BY_NAME, "needs sasl_username, and sasl_password or sasl_password_file"),
        ({**BY_NAME, **PASSWORD, **FILE}, "needs sasl_username, and sasl_password or"),
        ({**BY_NAME, **PASSWORD, **TOKEN}, "and no token"),
        ({**BY_NAME, **PASSWORD, "sasl_username": ""}, "needs sasl_username"),
        (BY_TOKEN, "needs sasl_oauth_token_file or sasl_oauth_token_provider"),
        ({**BY_TOKEN, **TOKEN, **PROVIDER}, "sasl_oauth_token_provider, not both"),
        ({**BY_NAME, **PASSWORD, **PROVIDER}, "and no token"),
        ({**BY_TOKEN, "sasl_oauth_token_provider": "wonderland"}, "should be callable"),
        ({**BY_TOKEN, **TOKEN, "sasl_username": "alice"}, "no name or password"),
        (
            {**BY_NAME, **PASSWORD, "sasl_mechanism": "PLAIN", "security_protocol": "SASL_PLAINTEXT"},
            "PLAIN sen",
        ),
        ({**BY_TOKEN, **TOKEN, **OPEN}, "OAUTHBEARER sends the secret itself"),
    ],
)
def test_settings_that_do_not(given: dict[str, Any], why: str) -> None:
    """A10: none of them shows the password."""
    with pytest.raises(SettingsError, match=why) as refused:
        load(ClientSettings, **given)
    assert "wonderland" not in str(refused.value)


def of_file(file: Path) -> ClientLogin:
    settings = load(ClientSettings, **BY_NAME, sasl_password_file=file)
    made = ClientLogin.of(settings, lambda: "nonce", SystemClock())
    assert made is not None
    return made


def test_a_password_is_read_for_each_login(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    file.chmod(0o600)
    login = of_file(file)
    assert login.secrets.in_thread() == "first"
    file.write_text("second\nand what is not looked at")
    assert login.secrets.in_thread() == "second"


@pytest.mark.parametrize(
    "content, mode, why",
    [
        (b"secret-1", 0o644, "other users may read it"),
        (b"\nsecret-1", 0o600, "first line is empty"),
        (b"\xffsecret-1", 0o600, "sasl_password_file"),
        (b"\x07secret-1", 0o600, "characters that a login does not allow"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_at_the_start(
    tmp_path: Path, content: bytes, mode: int, why: str
) -> None:
    """A10"""
    file = tmp_path / "password"
    file.write_bytes(content)
    file.chmod(mode)
    with pytest.raises(SettingsError, match=why) as refused:
        of_file(file)
    assert "secret" not in str(refused.value)


def test_no_value_shows_a_password() -> None:
    """A10"""
    settings = load(ClientSettings, **BY_NAME, **PASSWORD)
    assert "wonderland" not in f"{settings!r}{settings}{settings.model_dump_json()}"
    assert "wonderland" not in repr(ClientLogin.of(settings, lambda: "nonce", SystemClock()))
