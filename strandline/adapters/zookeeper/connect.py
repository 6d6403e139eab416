"""Begins and ends sessions, and protects the znode below which all others are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.zookeeper.protection import protect_root
from strandline.adapters.zookeeper.session import ZooKeeperSession
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import SettingsError
from strandline.ports import ConnectionLost, NotPermitted, SessionEnded

WAITING_S: Final = 1.0
"""How often `connect` reports that it is still waiting."""

_CLOCK: Final = SystemClock()


async def connect(
    settings: ZooKeeperSettings,
    on_waiting: Callable[[float], None] | None = None,
    *,
    protect: bool = True,
) -> ZooKeeperSession:
    """Begin a session; waits for ZooKeeper without a time limit.

    `on_waiting` is called about once a second with the seconds waited so far. The chroot at the end
    of `settings.zookeeper` is created if it is missing, and protected if this process sets ACLs,
    unless `protect` is False. Raises SettingsError for a malformed
    address, for files that cannot be used, and if ZooKeeper refuses the identity.
    """
    began = _CLOCK.monotonic()
    while True:
        session = ZooKeeperSession(settings)
        session.begin()
        try:
            while not await session.opened(WAITING_S):
                if on_waiting is not None:
                    on_waiting(_CLOCK.monotonic() - began)
            await _open_root(session, protect=protect)
            return session
        except SessionEnded:  # the server was gone for a session timeout during the first steps: retry
            await session.close()
            if session.identity_refused:
                scheme = settings.zookeeper_auth_scheme
                raise SettingsError(
                    f"setting zookeeper_auth_scheme = {scheme!r}: ZooKeeper refuses it"
                ) from None
        except BaseException:
            await session.close()
            raise


async def end_session(settings: ZooKeeperSettings, session_id: int, password: bytes) -> bool:
    """End an earlier session from outside, so that its ephemerals need not wait for its timeout
    (E10).

    Returns True if it was still alive. Waits for ZooKeeper without a time limit. If the owner is
    alive and reconnects, the server closes this connection, perhaps before the request to end
    arrived, so this function repeats the attempt until the session is gone.
    """
    was_alive = False
    while True:
        session = ZooKeeperSession(settings, resume=(session_id, password))
        session.begin()
        try:
            while not await session.opened(WAITING_S):
                pass
            if session.session_id != session_id:  # the earlier session was gone; this is a new one
                return was_alive
            was_alive = True
        finally:
            await session.close()


async def _open_root(session: ZooKeeperSession, *, protect: bool) -> None:
    """Raises SettingsError if the znode of the chroot is not for this process."""
    try:
        while True:
            try:
                await session.ensure_path("/")
                if protect and session.identity.set_acl:
                    await protect_root(session)
                await session.get("/")
                return
            except ConnectionLost:
                continue
    except NotPermitted as error:
        raise SettingsError(f"ZooKeeper: {error.message}") from error
