"""How a source, a sink or a job reaches a cluster: the addresses, and the security settings of clients.

The settings have Kafka's names, with the prefix `kafka.` if wanted. A secret is never among them: options
stand in query plans and in Spark's pages. Files have them, on the driver and on every executor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from strandline.config.client import ClientSettings
from strandline.config.load import SECRETS, build
from strandline.errors import SettingsError
from strandline.pipeline.errors import InvalidOption

BOOTSTRAP: Final = "bootstrap"
KAFKA_BOOTSTRAP: Final = "kafka.bootstrap.servers"
_KAFKA: Final = "kafka."
_KINDS: Final = ("security_", "ssl_", "sasl_")
"""How the names of a client's security settings begin."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster and how to reach it. Tasks get it with their options."""

    bootstrap: str
    """The brokers' addresses, `host:port` separated by commas."""
    security: tuple[tuple[str, str], ...] = ()
    """Settings of clients, by name."""

    @classmethod
    def of(cls, bootstrap: str, settings: Mapping[str, Any]) -> Connection:
        """For the settings of a client; those that are not about security are left out.

        Raises SettingsError for a secret, which tasks would get in their options.
        """
        chosen = {name: str(value) for name, value in settings.items() if name.startswith(_KINDS)}
        for name in filter(is_secret, chosen):
            raise SettingsError(
                f"setting {name}: Spark would show it: put it into a file, and set {name}_file to its path"
            )
        return cls(bootstrap, tuple(sorted(chosen.items())))

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of a client."""
        return dict(self.security)

    @property
    def options(self) -> dict[str, str]:
        """Options of the source and the sink."""
        return {BOOTSTRAP: self.bootstrap, **{_option(name): value for name, value in self.security}}


def security_options() -> Iterator[str]:
    """The names of the options, without the prefix."""
    for name in ClientSettings.model_fields:
        if name.startswith(_KINDS) and not is_secret(name):
            yield _option(name)


def is_secret(setting: str) -> bool:
    """Whether the value of a setting is a secret, and no file that has it."""
    return not setting.endswith("_file") and any(word in setting for word in SECRETS)


def text_of(texts: Mapping[str, str], name: str) -> str | None:
    """What an option says, by its name in lower case; None if it is absent. Raises InvalidOption if it is
    empty."""
    found = texts.get(name.lower())
    if found == "":
        raise InvalidOption(f"{name} is empty: give a value, or leave it out")
    return found


def connection(given: Mapping[str, str]) -> Connection:
    """Parse the options that reach the cluster. Raises InvalidOption."""
    texts = {key.lower(): value.strip() for key, value in given.items()}
    return Connection(_bootstrap(texts), _security(texts))


def _bootstrap(texts: Mapping[str, str]) -> str:
    ours, kafkas = text_of(texts, BOOTSTRAP), text_of(texts, KAFKA_BOOTSTRAP)
    if ours is not None and kafkas is not None and ours != kafkas:
        raise InvalidOption(f"{BOOTSTRAP} = {ours!r} and {KAFKA_BOOTSTRAP} = {kafkas!r}: give one of them")
    found = ours or kafkas
    if found is None:
        raise InvalidOption(f"{BOOTSTRAP} is missing: say where brokers are, as in '127.0.0.1:9092'")
    return found


def _security(texts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for name in security_options():
        values = {texts[key] for key in (name, _KAFKA + name) if key in texts}
        if len(values) > 1:
            raise InvalidOption(f"{name} and {_KAFKA}{name} differ: give one of them")
        for value in values:
            found[_setting(name)] = value
    try:
        build(ClientSettings, found, {})
    except SettingsError as error:
        raise InvalidOption(error.message) from None
    return tuple(sorted(found.items()))


def _option(setting: str) -> str:
    return setting.replace("_", ".")


def _setting(option: str) -> str:
    return option.replace(".", "_")
