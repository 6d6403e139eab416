"""Sets, deletes and lists the users who log in by name and password."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from strandline.adapters.codecs.users import ALTER_USERS, DESCRIBE_USERS
from strandline.client.admin.refusals import raise_first
from strandline.host import Host
from strandline.ports import Method, Request, Response
from strandline.security.login.credentials import (
    EVERY_MECHANISM,
    ITERATIONS_DEFAULT,
    UserChange,
    with_password,
)
from strandline.security.login.mechanisms import SCRAM_SHA_512
from strandline.vocabulary.admin import UserDescription


class UserAdmin(ABC):
    """A part of `Admin`, which asks the active controller."""

    _host: Host

    @abstractmethod
    async def _ask_controller(self, method: Method[Request, Response], request: Request) -> Response: ...

    async def set_user(
        self,
        name: str,
        password: str,
        *,
        mechanisms: Sequence[str] = (SCRAM_SHA_512,),
        iterations: int = ITERATIONS_DEFAULT,
    ) -> None:
        """Give a user this password for these mechanisms; its other credentials stay.

        The password stays on this machine: the cluster gets salted keys, which verify a login and from which
        none can be made (KIP-554). Each broker takes them a moment after the return. Raises InvalidRequest,
        NotController.
        """

        def new_salt() -> bytes:
            return self._host.new_id().encode()

        changes = await self._host.threads.run(
            with_password, name, password, mechanisms, iterations, new_salt
        )
        await self.alter_users(changes)

    async def delete_user(self, name: str, mechanism: str | None = None) -> None:
        """Delete a user, or its credential for one mechanism; with the last one the user is gone.

        Raises ResourceNotFound, InvalidRequest, NotController.
        """
        await self.alter_users([UserChange(name, EVERY_MECHANISM if mechanism is None else mechanism)])

    async def alter_users(self, changes: Sequence[UserChange]) -> None:
        """Set and remove credentials. All changes of one user happen, or none.

        Raises the first refusal, with the others as notes, once the other users are changed.
        """
        results = await self._ask_controller(ALTER_USERS, changes)
        raise_first((each.user, each.error) for each in results)

    async def describe_users(self, names: Sequence[str] = ()) -> list[UserDescription]:
        """These users, in order, or all, by name. One that does not exist has the error ResourceNotFound.
        Raises InvalidRequest, NotController."""
        found = await self._ask_controller(DESCRIBE_USERS, names)
        return list(found)
