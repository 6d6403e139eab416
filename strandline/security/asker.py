"""A caller, as those see it who decide about it and write down what it does."""

from __future__ import annotations

from typing import Protocol

from strandline.security.principal import Principal


class Asker(Protocol):
    """`strandline.ports.Caller` is one, and says what each of these is."""

    @property
    def principal(self) -> Principal: ...

    @property
    def host(self) -> str: ...

    @property
    def member_key(self) -> bytes | None: ...

    @property
    def connection(self) -> str: ...

    @property
    def mechanism(self) -> str: ...

    @property
    def reached(self) -> str: ...

    @property
    def call(self) -> str: ...

    @property
    def request_id(self) -> int | None: ...

    @property
    def client_id(self) -> str: ...
