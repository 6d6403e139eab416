"""A broker's data folder: its owner, whether its last life ended cleanly, and which lives count.

lock            held while a process uses the folder: a second one refuses to start
meta.json       cluster id and broker id: a folder of another cluster or broker is refused
life.json       the broker epochs of past lives, the boot and the disk on which they ran, their sessions
clean_shutdown  written last by a clean shutdown, removed first at start (CORRECTNESS E2)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from strandline.broker.storage.state_files.checkpoint import read_whole, write_atomically
from strandline.errors import SettingsError
from strandline.ids import BrokerEpoch, BrokerId
from strandline.ports import Files

LIVES_REMEMBERED_MAX: Final = 64


class DataFolder:
    """One broker's folder, locked for this process until `close`."""

    def __init__(self, path: Path, broker_id: BrokerId, boot_id_file: Path, files: Files) -> None:
        self.path = path
        self.files = files
        self.broker_id = broker_id
        files.make_directory(path)
        self._is_closed = False
        self._lock = self._acquire()
        try:
            self._meta = self._read("meta.json")
            known = self._meta.get("broker_id", broker_id)
            if known != broker_id:
                raise SettingsError(
                    f"setting data_dir = {str(path)!r} belongs to broker {known}, this is {broker_id}: "
                    "give each broker its own folder"
                )
            self._take_over(boot_id_file)
        except BaseException:
            self.close()
            raise

    def _acquire(self) -> int:
        try:
            return self.files.lock(self.path / "lock")
        except BlockingIOError:
            raise SettingsError(
                f"setting data_dir = {str(self.path)!r}: another process uses this folder; "
                "stop it, or give this broker its own folder"
            ) from None

    def _take_over(self, boot_id_file: Path) -> None:
        """Read what the last life left; the clean marker is removed before anything else happens."""
        life = self._read("life.json")
        if not life:
            self.files.sync_directory(self.path.parent)  # else a loss of power may take the whole folder
        marker = self._read("clean_shutdown")
        with suppress(FileNotFoundError):
            self.files.remove(self.path / "clean_shutdown")
        try:
            self._boot_id = self.files.boot_id(boot_id_file)
        except OSError as error:
            raise SettingsError(f"setting boot_id_file = {str(boot_id_file)!r}: {error}") from error
        epochs: list[int] = life.get("epochs", [])
        self.clean: bool = bool(epochs) and marker.get("broker_epoch") == epochs[-1]
        """The last life ended by a clean shutdown: the log is flushed and needs no recovery."""
        self._volume = self.files.volume(self.path)
        self._medium_before = (life.get("boot_id", self._boot_id), life.get("volume", self._volume))
        self.page_cache_survived: bool = self._medium_before == (self._boot_id, self._volume)
        """The kernel that took the last writes still runs, and had the disk all the time: a killed process
        loses none of them."""
        self._power_loss_kept = False
        self._lives: list[BrokerEpoch] = [BrokerEpoch(epoch) for epoch in epochs]
        self.previous_sessions: frozenset[int] = frozenset(life.get("sessions", []))
        """Sessions of past lives: their registrations may be removed (CORRECTNESS E10)."""
        self._sessions: list[int] = life.get("sessions", [])

    @property
    def power_lost(self) -> bool:
        """The writes that the last life did not sync may be lost: each log knows if any of its own can be."""
        return not (self.clean or self.page_cache_survived)

    @property
    def last_life(self) -> BrokerEpoch | None:
        """The present life, once it has begun, else the one before; None: there was none."""
        return self._lives[-1] if self._lives else None

    @property
    def life_before(self) -> BrokerEpoch | None:
        """The life before the present one."""
        return self._lives[-2] if len(self._lives) > 1 else None

    def lives_after(self, life: int | None) -> frozenset[BrokerEpoch]:
        """The lives that followed this one, as far as they are remembered. None: all."""
        lives = self._lives
        return frozenset(lives[lives.index(BrokerEpoch(life)) + 1 :] if life in lives else lives)

    def keep_power_loss(self) -> None:
        """A log could not be read, so it is not known what a loss of power took from it: the next life takes
        the power for lost again, if this one did."""
        self._boot_id, self._volume = self._medium_before
        self._power_loss_kept = self.power_lost

    def check_cluster(self, cluster_id: str) -> None:
        """Bind the folder to this cluster. Raises SettingsError if it belongs to another one."""
        known = self._meta.get("cluster_id")
        if known is None:
            self._meta = {"cluster_id": cluster_id, "broker_id": self.broker_id}
            self._write("meta.json", self._meta)
        elif known != cluster_id:
            raise SettingsError(
                f"setting data_dir = {str(self.path)!r} holds data of cluster {known}, but ZooKeeper is of "
                f"cluster {cluster_id}: check the setting zookeeper, or give an empty folder"
            )

    def begin_session(self, session_id: int) -> None:
        """Remember a session before anything is registered in it."""
        if session_id not in self._sessions:
            self.previous_sessions = frozenset(self._sessions)
            self._sessions = [*self._sessions, session_id][-LIVES_REMEMBERED_MAX:]
            self._write_life()

    def begin_life(self, broker_epoch: BrokerEpoch) -> None:
        """Remember a registration before anything is done under it."""
        self._lives = [*self._lives, broker_epoch][-LIVES_REMEMBERED_MAX:]
        self._write_life()

    def _write_life(self) -> None:
        life = {
            "boot_id": self._boot_id,
            "volume": self._volume,
            "epochs": self._lives,
            "sessions": self._sessions,
        }
        self._write("life.json", life)

    def mark_clean(self) -> None:
        """The last step of a clean shutdown: every log is flushed and closed.

        A log that could not be read since a loss of power is not among them: then nothing is written, so that
        the next life takes the power for lost.
        """
        if self._power_loss_kept:
            return
        self._write("clean_shutdown", {"broker_epoch": self._lives[-1] if self._lives else None})

    def partition_folders(self) -> Iterable[Path]:
        return [self.path / name for name in sorted(self.files.directories(self.path))]

    def sync_disk(self) -> bool:
        """Syncs everything on the disk of this folder in one call; False if that is impossible here, or the
        folder is closed: a thread may still work as the process ends.

        The descriptor is as old as the process. So no failed write of this process is missed, even if another
        process asks in the meantime. Raises SyncFailed.
        """
        return not self._is_closed and self.files.sync_all(self._lock)

    def sync_names(self) -> None:
        """Syncs the names of the folders in here. Raises OSError."""
        self.files.sync_directory(self.path)

    def close(self) -> None:
        self._is_closed = True
        self.files.close(self._lock)

    def _read(self, name: str) -> dict[str, Any]:
        try:
            data = read_whole(self.path / name, files=self.files)
        except FileNotFoundError:
            return {}
        try:
            value = json.loads(data)
        except ValueError:
            raise SettingsError(
                f"{self.path / name} is damaged: {data[:80]!r}; restore or remove it"
            ) from None
        if not isinstance(value, dict):
            raise SettingsError(f"{self.path / name} is damaged: {data[:80]!r}; restore or remove it")
        return value

    def _write(self, name: str, value: dict[str, Any]) -> None:
        write_atomically(self.path / name, json.dumps(value).encode(), files=self.files)
