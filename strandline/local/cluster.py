"""A whole cluster on this machine, for tests and experiments.

    async with LocalCluster(brokers=3) as cluster:
        producer = Producer(cluster.bootstrap)

Every member is a separate process, and ZooKeeper is a real one, so that a member can be killed,
suspended and restarted. All of them start at the same time; a broker waits for ZooKeeper by itself.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from strandline.adapters.system_host import system_host
from strandline.config.client import ClientSettings
from strandline.errors import SettingsError
from strandline.host import Host
from strandline.local.bring_up import BringUp
from strandline.local.console_process import ConsoleProcess
from strandline.local.layout import ClusterFile, Layout
from strandline.local.members.member_status import MemberStatus
from strandline.local.members.members import Members
from strandline.local.members.new_cluster import new_members
from strandline.local.ports import LOOPBACK, check_ports
from strandline.local.process import Process, Spawn
from strandline.local.service import Service, as_environment
from strandline.local.waits import START_S_MAX, all_of, locked, serving


class LocalCluster:
    """A local cluster; the module's docstring has an example.

    Without `directory` it lives in a temporary folder, which is removed at the end unless `keep`. With
    `detached` its processes outlive this one (`strandline up`); `LocalCluster.open` finds them again.
    Ports are chosen once, free ones without `base_port`, and kept over restarts. Ids start at 1. `racks`
    are assigned to the brokers in turn. Settings are those of `strandline.config`, by name; each broker
    gets `broker_settings`, each controller `controller_settings`. With `zookeeper`, `host:port[/chroot]`,
    the cluster uses a server that is running already. With `kafka`, each broker has a port for Kafka
    clients, from `kafka_port` on, or a free one. With `secure`, every connection between its processes and
    clients is encrypted, and both ends show certificates: see `client_settings`. That holds for metrics and
    for ZooKeeper, if the cluster runs it itself. `spawn` starts the processes of brokers and controllers.
    """

    _members_type: type[Members] = Members

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int = 1,
        directory: Path | str | None = None,
        base_port: int | None = None,
        racks: Sequence[str] = (),
        broker_settings: Mapping[str, Any] | None = None,
        controller_settings: Mapping[str, Any] | None = None,
        zookeeper: str | None = None,
        kafka: bool = False,
        kafka_port: int | None = None,
        secure: bool = False,
        keep: bool = False,
        detached: bool = False,
        spawn: Spawn = Process.spawn,
    ) -> None:
        directory = None if directory is None else Path(directory)
        if directory is not None:
            _refuse_cluster(Layout(directory))
        for_brokers = as_environment("broker", broker_settings or {})
        file = new_members(
            brokers,
            controllers,
            base_port=base_port,
            kafka=kafka or kafka_port is not None,
            kafka_port=kafka_port,
            racks=racks,
            broker_settings=for_brokers,
            controller_settings=as_environment("controller", controller_settings or {}),
            zookeeper=zookeeper,
            secure=secure,
        )
        self._broker_settings = for_brokers
        self._spawn_process = spawn
        self._temporary = directory is None and not keep
        self._detached = detached
        home = directory if directory is not None else Path(tempfile.mkdtemp(prefix="strandline-"))
        self._members = self._members_of(Layout(home), file, is_new=True)

    @classmethod
    def open(cls, directory: Path) -> LocalCluster:
        """The cluster in `directory`, with its running processes. `start` starts the others.

        Raises SettingsError if there is no cluster.
        """
        cluster = cls.__new__(cls)
        layout = Layout(directory)
        file = layout.read()
        cluster._broker_settings = dict(file.brokers[0].settings) if file.brokers else {}
        cluster._spawn_process = Process.spawn
        cluster._temporary = False
        cluster._detached = True
        cluster._members = cluster._members_of(layout, file, is_new=False)
        return cluster

    def _members_of(self, layout: Layout, file: ClusterFile, *, is_new: bool) -> Members:
        return self._members_type(
            layout, file, detached=self._detached, spawn=self._spawn_process, is_new=is_new
        )

    @property
    def _layout(self) -> Layout:
        return self._members.layout

    # --- properties ---------------------------------------------------------------------------

    @property
    def directory(self) -> Path:
        return self._layout.directory

    @property
    def bootstrap(self) -> str:
        """`host:port` of every broker, running or not, separated by commas."""
        return ",".join(service.address for service in self._members.brokers.values())

    @property
    def kafka_bootstrap(self) -> str:
        """`host:port` of every broker for Kafka clients, separated by commas; empty without such ports."""
        ports = (member.kafka_port for member in self._members.file.brokers)
        return ",".join(f"{LOOPBACK}:{port}" for port in ports if port is not None)

    @property
    def host(self) -> Host:
        """Where its clients run: on this machine. The clusters of `strandline.testing` have other hosts."""
        return system_host(ClientSettings(**self.client_settings))

    @property
    def secure(self) -> bool:
        """True if its connections are encrypted, and its clients need certificates."""
        return self._members.file.secure

    @property
    def client_settings(self) -> dict[str, Any]:
        """The settings with which its admin's clients connect: those of a plain cluster are the defaults."""
        security = self._members.security
        return {} if security is None else security.client_settings

    @property
    def zookeeper(self) -> str:
        """`host:port` of ZooKeeper, with the chroot that the cluster was given."""
        return self._members.zookeeper.address

    @property
    def zookeeper_settings(self) -> dict[str, Any]:
        """The settings with which a tool looks at its znodes. A secure cluster has them for itself."""
        security = self._members.security
        return {"zookeeper": self.zookeeper} | ({} if security is None else security.zookeeper_settings())

    @property
    def broker_ids(self) -> list[int]:
        return list(self._members.brokers)

    @property
    def controller_ids(self) -> list[int]:
        return list(self._members.controllers)

    def address(self, broker_id: int) -> str:
        """`host:port` of one broker."""
        return self._members.broker(broker_id).address

    def controller_address(self, controller_id: int) -> str:
        return self._members.controller(controller_id).address

    def metrics_port(self, broker_id: int) -> int | None:
        """The port on which a broker serves `/metrics`, if it does."""
        return self._members.broker(broker_id).member.metrics_port

    def controller_metrics_port(self, controller_id: int) -> int | None:
        return self._members.controller(controller_id).member.metrics_port

    def pid(self, broker_id: int) -> int:
        """Raises SettingsError if the broker is not running."""
        process = self._members.broker(broker_id).process
        if process is None:
            raise SettingsError(f"broker {broker_id} does not run")
        return process.pid

    def log_path(self, broker_id: int) -> Path:
        """The broker's output."""
        return self._members.broker(broker_id).log_path

    def data_dir(self, broker_id: int) -> Path:
        return self._layout.broker(broker_id)

    @property
    def console(self) -> ConsoleProcess | None:
        """The console of the cluster, running or not; None if it was not asked for one."""
        return self._members.console

    def members(self) -> list[MemberStatus]:
        """Every process of the cluster, running or not: ZooKeeper if it is its own, controllers, brokers, and
        the console if it has one."""
        return self._members.statuses()

    # --- the whole cluster --------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._detached:
            self._members.release()
        else:
            await self.stop(clean=not self._temporary)

    async def start(self, *, timeout_s: float = START_S_MAX) -> None:
        """Start every process that is not running, and wait until all serve.

        Waits for a process that is stopping, and starts it then. Raises ProcessFailed, with the last line of
        a log, if a process dies or does not serve in time. What serves keeps running then, and so does
        what is only slow: the next start continues. Only a cluster that is not detached stops what it
        has started here. Raises SettingsError, and does nothing, if another process is starting or
        stopping this cluster, or has created one here meanwhile, or if a port of a new cluster is taken.
        """
        if self._members.is_new:
            await self._check_ports()
        with self._layout.lock():
            self._catch_up()
            await self._start(timeout_s)

    async def _check_ports(self) -> None:
        """Raises SettingsError if a port is taken, and leaves no folder then that was not there."""
        try:
            check_ports(list(self._members.file.ports()))
        except SettingsError:
            if self._temporary:
                await asyncio.to_thread(shutil.rmtree, self.directory)
            elif self.directory.exists():
                with self._layout.lock():  # refuses if another start in this folder has them
                    self._catch_up()
            raise

    async def _start(self, timeout_s: float) -> None:
        """`start`, under the lock."""
        down = [service for service in self._members.services() if not service.alive]
        had_zookeeper = self._members.zookeeper.alive
        try:
            self._members.save()  # first: what a killed start leaves is the cluster that was asked for
            self._members.make_files()
            await BringUp(self._members, timeout_s).run(self._members.services(), with_zookeeper=True)
            if (console := self._members.console) is not None:
                await BringUp(self._members, timeout_s).run([console], with_zookeeper=False)
        except BaseException:
            if not self._detached:  # no later `down` would find them
                await self._stop_console(clean=False)
                await all_of(service.stop(clean=False) for service in down)
                if not had_zookeeper:
                    await self._members.zookeeper.discard()
            await self._leave()
            raise

    async def wait_serving(self, timeout_s: float = START_S_MAX) -> None:
        """Return once ZooKeeper and every started broker and controller serve. Raises ProcessFailed."""
        running = [service for service in self._members.services() if service.process is not None]
        waits: list[Awaitable[None]] = [serving(service, timeout_s) for service in running]
        await all_of([self._members.zookeeper.wait_serving(timeout_s), *waits])

    async def stop(self, *, clean: bool = True) -> int:
        """Stop everything: brokers and controllers first, by SIGTERM if `clean`, else by SIGKILL.

        A temporary folder is removed. Returns how many processes were running. Waits while another
        process starts or stops this cluster, and raises SettingsError if that takes too long.
        """
        async with locked(self._layout):
            self._catch_up()
            running = sum(member.alive for member in self.members())
            await self._stop_console(clean=clean)
            await all_of(service.stop(clean=clean) for service in self._members.services())
            await (self._members.zookeeper.stop() if clean else self._members.zookeeper.discard())
            await self._leave()
        return running

    async def start_console(self, *, timeout_s: float = START_S_MAX) -> ConsoleProcess:
        """Start a console beside the cluster, unless it runs, and wait until it serves.

        The cluster has it from now on: it starts and stops with the others. Raises ProcessFailed, and
        SettingsError as `grow` does.
        """
        async with locked(self._layout):
            self._catch_up()
            console = self._members.with_console()
            await BringUp(self._members, timeout_s).run([console], with_zookeeper=False)
            return console

    async def _stop_console(self, *, clean: bool) -> None:
        if self._members.console is not None:
            await self._members.console.stop(clean=clean)

    def _catch_up(self) -> None:
        """Under the lock: read what other processes changed since this object read the folder.

        Raises SettingsError if one of them created a cluster where this one was to be new. An
        object that owns its processes knows them without the file.
        """
        if self._members.is_new:
            _refuse_cluster(self._layout)
        elif self._detached and self._layout.holds_cluster:
            file = self._layout.read()
            if file != self._members.file:
                self._members.release()
                self._members = self._members_of(self._layout, file, is_new=False)

    async def _leave(self) -> None:
        """Record that the cluster is stopped, or remove its folder."""
        if self._temporary:
            await asyncio.to_thread(shutil.rmtree, self.directory)
        else:
            self._members.save()

    # --- brokers -------------------------------------------------------------------------------

    async def start_broker(
        self, broker_id: int, *, wait_s: float | None = START_S_MAX, **settings: Any
    ) -> None:
        """Start a stopped broker, from now on also with these settings, and wait until it serves.

        `wait_s` None: do not wait. Raises ProcessFailed, SettingsError.
        """
        await self._start_one(self._members.broker(broker_id), wait_s, settings)

    async def stop_broker(self, broker_id: int) -> None:
        """SIGTERM: the broker hands its leaderships over first. Waits until it has exited."""
        await self._stop(self._members.broker(broker_id), clean=True)

    async def kill_broker(self, broker_id: int) -> None:
        """SIGKILL. Waits until it has exited."""
        await self._stop(self._members.broker(broker_id), clean=False)

    def pause_broker(self, broker_id: int) -> None:
        """SIGSTOP: the broker hangs, and its connections stay open."""
        self._members.broker(broker_id).pause()

    def resume_broker(self, broker_id: int) -> None:
        self._members.broker(broker_id).resume()

    async def add_broker(self, *, rack: str = "", wait_s: float | None = START_S_MAX, **settings: Any) -> int:
        """Add a broker with the cluster's settings and the given ones; returns its id."""
        wanted = {**self._broker_settings, **as_environment("broker", settings)}
        service = self._members.add_broker(wanted, rack=rack)
        await self.start_broker(service.member.id, wait_s=wait_s)
        return service.member.id

    async def grow(self, brokers: int, *, timeout_s: float = START_S_MAX) -> list[int]:
        """Add brokers until there are this many, and wait until they serve; returns the ids of the new ones.

        They get the cluster's settings, the next ports, and racks in turn. No replica moves to them by
        itself. Raises ProcessFailed if one dies, which is then not added, or does not serve in time; the
        others stay. Waits while another process starts or stops this cluster; raises SettingsError if
        that takes too long.
        """
        async with locked(self._layout):
            self._catch_up()
            added: list[Service] = []
            try:
                for _ in range(brokers - len(self._members.brokers)):
                    added.append(self._members.add_broker(self._broker_settings, rack=None))
                self._members.make_files()
                await BringUp(self._members, timeout_s).run(added, with_zookeeper=False)
            except BaseException:
                self._members.leave_out([service for service in added if not service.alive])
                raise
        return [service.member.id for service in added]

    async def remove_broker(self, broker_id: int) -> None:
        """Leave a stopped broker out of the cluster from now on; its data folder stays.

        Raises SettingsError if it runs. Waits for the folder's lock as `grow` does.
        """
        async with locked(self._layout):
            self._catch_up()
            service = self._members.broker(broker_id)
            if service.alive:
                raise SettingsError(f"broker {broker_id} runs: stop it first")
            self._members.leave_out([service])

    # --- controllers and ZooKeeper ---------------------------------------------------------------

    async def start_controller(
        self, controller_id: int, *, wait_s: float | None = START_S_MAX, **settings: Any
    ) -> None:
        """Start a stopped controller, from now on also with these settings, and wait until it serves.

        `wait_s` None: do not wait. Raises ProcessFailed, SettingsError.
        """
        await self._start_one(self._members.controller(controller_id), wait_s, settings)

    async def stop_controller(self, controller_id: int) -> None:
        """SIGTERM. Waits until it has exited."""
        await self._stop(self._members.controller(controller_id), clean=True)

    async def kill_controller(self, controller_id: int) -> None:
        """SIGKILL. Waits until it has exited."""
        await self._stop(self._members.controller(controller_id), clean=False)

    async def start_zookeeper(self, *, wait_s: float = START_S_MAX) -> None:
        """Start ZooKeeper on its old data and wait until it serves."""
        self._members.make_files()
        self._members.zookeeper.start()
        self._members.save()
        await self._members.zookeeper.wait_serving(wait_s)

    async def kill_zookeeper(self) -> None:
        """SIGKILL. Waits until it has exited."""
        await self._members.zookeeper.kill()
        self._members.save()

    # --- internals -----------------------------------------------------------------------------

    async def _start_one(self, service: Service, wait_s: float | None, settings: Mapping[str, Any]) -> None:
        if service.alive:
            raise SettingsError(f"{service.kind} {service.member.id} runs already")
        service.member.settings |= as_environment(service.kind, settings)
        self._members.make_files()
        self._spawn(service)
        if wait_s is not None:
            await serving(service, wait_s)

    def _spawn(self, service: Service) -> None:
        """Start it, and record it at once: `down` finds the processes of a start that was killed."""
        service.start()
        self._members.save()

    async def _stop(self, service: Service, *, clean: bool) -> None:
        await service.stop(clean=clean)
        self._members.save()


def _refuse_cluster(layout: Layout) -> None:
    if layout.holds_cluster:
        raise SettingsError(f"{layout.directory} holds a cluster already: LocalCluster.open takes it up")
