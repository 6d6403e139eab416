"""A name that no program knows is found; one of another program is not."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest
from pydantic import BaseModel

import strandline.config
from strandline.adapters.system.unknown_settings import (
    OTHER_VARIABLES,
    UnknownName,
    constants_named,
    unknown_names,
)
from strandline.config.explain.usage import PREFIX
from strandline.errors import SettingsError

ROOT = Path(__file__).parents[4]
READING = ("*.py", "docker-compose*.yml", "Dockerfile", "*.sh", "*.env")
"""Files that read or set variables."""


def with_file(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    return {"STRANDLINE_CONFIG": str(path)}


def test_a_misspelt_name_is_found_with_the_one_that_was_meant(tmp_path: Path) -> None:
    file = with_file(tmp_path, "authorzer = 'acl'\nRACK = 'a'\nzzzzzz = 1\n[broker]\nport = 1")
    assert unknown_names({**file, "Strandline_Authorizr": "acl", "AUTHORIZR": "acl"}) == [
        UnknownName("Strandline_Authorizr", "STRANDLINE_AUTHORIZER"),
        UnknownName("authorzer", "authorizer"),
        UnknownName("RACK", "rack"),
        UnknownName("zzzzzz", None),
        UnknownName("broker", "broker_id"),
    ]


def test_no_constant_is_offered_for_a_misspelt_name(tmp_path: Path) -> None:
    file = with_file(tmp_path, "push_windo = 1")
    offered = [each.nearest for each in unknown_names({**file, "STRANDLINE_MULTI_BYTES_MAXX": "1"})]
    assert not {"push_window", "STRANDLINE_MULTI_BYTES_MAX"}.intersection(offered)


def test_a_name_of_another_program_is_known(tmp_path: Path) -> None:
    file = with_file(tmp_path, "controller_id = 1\nbroker_id = 2\nlinger_ms = 5\nstate_dir = 's'")
    variables = {f"{PREFIX}{name.upper()}": "" for name in ("sasl_password", "rack", *OTHER_VARIABLES)}
    assert unknown_names({**variables, **file, "strandline_port": "1"}) == []


def test_a_constant_is_found_with_its_value_and_one_for_tests_is_not(tmp_path: Path) -> None:
    """They were settings in earlier versions."""
    environment = {**with_file(tmp_path, "push_window = 8"), "Strandline_Mend_After_Ms": "5"}
    assert constants_named(environment) == {"push_window": 2, "Strandline_Mend_After_Ms": 10_000}
    assert unknown_names(environment) == []
    for_tests = {"STRANDLINE_TEST_PUSH_WINDOW": "8"}
    assert (constants_named(for_tests), unknown_names(for_tests)) == ({}, [])


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="settings file"):
        unknown_names(with_file(tmp_path, "port 2"))


def test_every_setting_of_every_class_is_known(tmp_path: Path) -> None:
    modules = [
        import_module(each.name)
        for each in pkgutil.walk_packages(strandline.config.__path__, "strandline.config.")
    ]
    classes = [
        cls
        for module in modules
        for cls in vars(module).values()
        if isinstance(cls, type) and issubclass(cls, BaseModel)
    ]
    names = {name for cls in classes for name in cls.model_fields}
    assert {"broker_id", "controller_id", "acks", "group_id", "application_id"} <= names
    assert unknown_names(with_file(tmp_path, "".join(f"{name} = 1\n" for name in names))) == []


def test_every_variable_that_something_reads_is_known() -> None:
    """Tests may misspell them."""
    files = [
        path
        for pattern in READING
        for folder in ("strandline", "docker", "examples", "lab")
        for path in (ROOT / folder).rglob(pattern)
    ]
    files += [*ROOT.glob("docker-compose*.yml"), ROOT / "Dockerfile"]
    found = {name for path in files for name in re.findall(rf"{PREFIX}[A-Z_]*[A-Z]\b", path.read_text())}
    assert {"STRANDLINE_CLIENT_CONFIG", "STRANDLINE_BIND", "STRANDLINE_DIR"} <= found
    assert unknown_names(dict.fromkeys(found - {"STRANDLINE_CONFIG"}, "")) == []
