"""Warns of names of settings that no program of strandline knows, which are most likely misspelt.

A service ignores names that are no setting of its own, so that several processes can share a file. Without
this warning, one that is misspelt would leave its default in force unnoticed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Final

import structlog
from pydantic import BaseModel

from strandline.config.explain.usage import PREFIX
from strandline.config.load import read_file
from strandline.config.services.broker import BrokerSettings
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


def unknown_names(environment: Mapping[str, str]) -> list[UnknownName]:
    """The variables with strandline's prefix, and the names in the file that `STRANDLINE_CONFIG` names, that
    no program of strandline reads.

    Raises SettingsError if the file cannot be read."""
    variables = {name: name[len(PREFIX) :].lower() for name in environment if name.upper().startswith(PREFIX)}
    in_file = list(read_file(environment))
    of_services = _names(BrokerSettings, ControllerSettings)
    if of_services.issuperset(in_file) and (of_services | OTHER_VARIABLES).issuperset(variables.values()):
        return []
    known = of_services | _names_of_clients()
    as_variables = known | OTHER_VARIABLES
    return [
        *(
            UnknownName(name, _nearest(setting, as_variables, lambda like: f"{PREFIX}{like.upper()}"))
            for name, setting in variables.items()
            if setting not in as_variables
        ),
        *(UnknownName(name, _nearest(name.lower(), known)) for name in in_file if name not in known),
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
