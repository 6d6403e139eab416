"""Warns of names of settings that no program of strandline knows, which are most likely misspelt, and of
constants, which no settings file changes.

A service ignores names that are no setting of its own, so that several processes can share a file. Without
this warning, one that is misspelt would leave its default in force unnoticed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from pydantic import BaseModel

from strandline.config.explain.usage import PREFIX
from strandline.config.load import read_file
from strandline.config.services.broker import BrokerSettings
from strandline.config.services.constants import TEST_PREFIX, constants_of
from strandline.config.services.controller import ControllerSettings

logger = structlog.get_logger(__name__)

OTHER_VARIABLES: Final = frozenset(
    {"bind", "bootstrap", "client_config", "config", "dir", "image", "restart"}
)
"""What follows `STRANDLINE_` in variables that are no settings: those of the command line, the examples and
docker-compose.yml."""


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A name in the environment or in the settings file, and the known one that is most like it, if any."""

    name: str
    nearest: str | None


def warn_of_unknown_names() -> None:
    """Log one warning for each in this process's environment, and in its settings file.

    Raises SettingsError if the file cannot be read."""
    for unknown in unknown_names(os.environ):
        nearest = {} if unknown.nearest is None else {"nearest": unknown.nearest}
        logger.warning("no setting has this name, so it is ignored", setting=unknown.name, **nearest)
    for name, value in constants_named(os.environ).items():
        logger.warning("this is a constant, and no setting, so it is ignored", setting=name, constant=value)


def constants_named(environment: Mapping[str, str]) -> dict[str, object]:
    """The variables and the names in the settings file that are constants, with their values. Many were
    settings in earlier versions.

    Raises SettingsError if the file cannot be read."""
    constants = _constants()
    found = {name: name for name in read_file(environment)} | _variables(environment)
    return {name: constants[setting] for name, setting in found.items() if setting in constants}


def _constants() -> dict[str, object]:
    """Their values as a settings file would have them."""
    every = constants_of(BrokerSettings) | constants_of(ControllerSettings)
    return {name: str(value) if isinstance(value, Path) else value for name, value in every.items()}


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Each variable of strandline with the name of its setting."""
    return {name: name[len(PREFIX) :].lower() for name in environment if name.upper().startswith(PREFIX)}


def unknown_names(environment: Mapping[str, str]) -> list[UnknownName]:
    """The variables with strandline's prefix, and the names in the file that `STRANDLINE_CONFIG` names, that
    no program of strandline reads.

    Raises SettingsError if the file cannot be read."""
    variables = _variables(environment)
    in_file = list(read_file(environment))
    of_services = _names(BrokerSettings, ControllerSettings)
    constants = set(_constants())
    others = OTHER_VARIABLES | {TEST_PREFIX + name for name in constants}
    if of_services.issuperset(in_file) and (of_services | others).issuperset(variables.values()):
        return []
    known = of_services | _names_of_clients()
    as_variables = known | others
    return [
        *(
            UnknownName(
                name, _nearest(setting, as_variables - constants, lambda like: f"{PREFIX}{like.upper()}")
            )
            for name, setting in variables.items()
            if setting not in as_variables
        ),
        *(
            UnknownName(name, _nearest(name.lower(), known - constants))
            for name in in_file
            if name not in known
        ),
    ]


def _nearest(name: str, known: Set[str], shown: Callable[[str], str] = str) -> str | None:
    from difflib import get_close_matches  # here: few processes need it

    return next(map(shown, get_close_matches(name, sorted(known), n=1)), None)


def _names(*classes: type[BaseModel]) -> set[str]:
    return {name for cls in classes for name in cls.model_fields}


def _names_of_clients() -> set[str]:
    from strandline.config.console import ConsoleSettings  # here, too: a service has no use for them
    from strandline.config.consumer import ConsumerSettings
    from strandline.config.producer import ProducerSettings
    from strandline.config.streams import StreamsSettings

    return _names(ConsoleSettings, ConsumerSettings, ProducerSettings, StreamsSettings)
