"""Builds settings: from arguments, and those of a service from the environment and a file too."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from strandline.config.explain.addresses import without_user
from strandline.config.explain.complaints import complaint
from strandline.config.explain.usage import PREFIX
from strandline.config.services.constants import TEST_PREFIX, constants_of
from strandline.config.services.zookeeper import ServiceSettings
from strandline.errors import SettingsError

SECRETS: Final = ("password", "token")
"""Parts of the names of settings whose values no error shows."""

NO_VALUES: Final = ("missing", "extra_forbidden")
"""Errors without a value: a name that is no setting may be a misspelt one of a secret."""

NUMBER_MAX: Final = 2**63 - 1
"""The most that a setting without a bound of its own may be. Timers, and what is sent, have 64 bits."""

SettingsT = TypeVar("SettingsT", bound=BaseModel)


def load(cls: type[SettingsT], **given: Any) -> SettingsT:
    """Build settings from arguments and, for a service, from this process's environment. See `build`."""
    return build(cls, given, os.environ)


def build(cls: type[SettingsT], given: Mapping[str, Any], environment: Mapping[str, str]) -> SettingsT:
    """Build settings from the given values; None is as no value.

    For a service, a variable of the environment (`STRANDLINE_…`) sets what is not given, and the TOML
    file that `STRANDLINE_CONFIG` names sets what is left. Names there that are no setting of this
    service are ignored, and so are its constants (`config/services/constants.py`).

    Raises SettingsError that names the first invalid setting, its value and what to give instead.
    """
    is_service = issubclass(cls, ServiceSettings)
    constants = constants_of(cls)
    values = _from_outside(environment, constants) if is_service else {}
    values |= {name: value for name, value in given.items() if value is not None}
    try:
        made = cls(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        wrong = complaint(cls, first)
        if not name:  # several settings do not fit together, and the message names them
            raise SettingsError(f"settings: {wrong}") from None
        value = "" if first["type"] in NO_VALUES else _shown(name, first["input"])
        variable = f" (set {variable_of(name, constants)})" if is_service else ""
        raise SettingsError(f"setting {name}{value}: {wrong}{variable}") from None
    for name in made.model_fields_set:
        number = getattr(made, name)
        if isinstance(number, int | float) and number > NUMBER_MAX:
            raise SettingsError(f"setting {name} = {number}: give at most {NUMBER_MAX}")
    return made


def _shown(name: str, value: Any) -> str:
    """The value as an error shows it; nothing of a secret, and no names and passwords in an address."""
    if any(word in name.lower() for word in SECRETS) or "PRIVATE KEY" in str(value):
        return ""
    return f" = {without_user(repr(value))}"


def variable_of(name: str, constants: Container[str]) -> str:
    """The variable of the environment that sets it."""
    return f"{PREFIX}{TEST_PREFIX.upper() if name in constants else ''}{name.upper()}"


def _from_outside(environment: Mapping[str, str], constants: Mapping[str, object]) -> dict[str, Any]:
    variables = _variables(environment)
    found = read_file(environment) | variables
    for_tests = {name: variables.get(TEST_PREFIX + name) for name in constants}
    settings = {name: value for name, value in found.items() if name not in constants}
    return settings | {name: value for name, value in for_tests.items() if value is not None}


def _variables(environment: Mapping[str, str]) -> dict[str, Any]:
    return {
        name[len(PREFIX) :].lower(): value
        for name, value in environment.items()
        if name.upper().startswith(PREFIX)
    }


def read_file(environment: Mapping[str, str]) -> dict[str, Any]:
    """What the TOML file that `STRANDLINE_CONFIG` names says; nothing if there is none.

    Raises SettingsError if the file cannot be read."""
    path = environment.get(f"{PREFIX}CONFIG")
    if not path:
        return {}
    import tomllib  # here: few processes have a file

    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"settings file {path!r}: {error}") from error
