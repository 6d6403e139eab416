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
from strandline.local.layout import ClusterFile, Layout, MemberFile
from strandline.local.member_status import MemberStatus, member_status
from strandline.local.new_cluster import new_broker, new_members
from strandline.local.ports import LOOPBACK, check_ports
from strandline.local.process import Process, Spawn
from strandline.local.secure.files import ClusterSecurity
from strandline.local.service import Service, as_environment
from strandline.local.waits import START_S_MAX, all_of, locked, serving
from strandline.local.zookeeper_process import RunningZooKeeper, ZooKeeperProcess


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
        self._is_new = True
        home = directory if directory is not None else Path(tempfile.mkdtemp(prefix="strandline-"))
        self._take_up(Layout(home), file, detached=detached)

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
        cluster._is_new = False
        cluster._take_up(layout, file, detached=True)
        return cluster

    def _take_up(self, layout: Layout, file: ClusterFile, *, detached: bool) -> None:
        self._layout = layout
        self._file = file
        self._detached = detached
        own_zookeeper = file.zookeeper.address is None
        self._security = ClusterSecurity(layout, own_zookeeper=own_zookeeper) if file.secure else None
        self._zookeeper = self._new_zookeeper()
        self._controllers = {member.id: self._service("controller", member) for member in file.controllers}
        self._brokers = {member.id: self._service("broker", member) for member in file.brokers}

    def _new_zookeeper(self) -> ZooKeeperProcess | RunningZooKeeper:
        member, layout = self._file.zookeeper, self._layout
        if member.address is not None:
            return RunningZooKeeper(member.address)
        log_path = layout.log("zookeeper")
        tls = None if self._security is None else self._security.zookeeper_server
        server = ZooKeeperProcess(
            layout.zookeeper, member.port, log_path=log_path, detached=self._detached, tls=tls
        )
        if member.process_id is not None:
            server.find(member.process_id)
        return server

    def _service(self, kind: str, member: MemberFile) -> Service:
        name = f"{kind}-{member.id}"
        log_path, spawn = self._layout.log(name), self._spawn_process
        fixed: dict[str, Any] = {"host": LOOPBACK, "zookeeper": self.zookeeper}
        if kind == "broker":
            fixed |= {"data_dir": self._layout.broker(member.id), "rack": member.rack}
        if self._security is not None:
            fixed |= self._security.service_settings(name) | self._security.zookeeper_settings(name)
        service = Service(kind, member, fixed, log_path=log_path, detached=self._detached, spawn=spawn)
        service.find()
        return service

    # --- properties ---------------------------------------------------------------------------

    @property
    def directory(self) -> Path:
        return self._layout.directory

    @property
    def bootstrap(self) -> str:
        """`host:port` of every broker, running or not, separated by commas."""
        return ",".join(service.address for service in self._brokers.values())

    @property
    def kafka_bootstrap(self) -> str:
        """`host:port` of every broker for Kafka clients, separated by commas; empty without such ports."""
        ports = (member.kafka_port for member in self._file.brokers)
        return ",".join(f"{LOOPBACK}:{port}" for port in ports if port is not None)

    @property
    def host(self) -> Host:
        """Where its clients run: on this machine. The clusters of `strandline.testing` have other hosts."""
        return system_host(ClientSettings(**self.client_settings))

    @property
    def secure(self) -> bool:
        """True if its connections are encrypted, and its clients need certificates."""
        return self._file.secure

    @property
    def client_settings(self) -> dict[str, Any]:
        """The settings with which its admin's clients connect: those of a plain cluster are the defaults."""
        return {} if self._security is None else self._security.client_settings

    @property
    def zookeeper(self) -> str:
        """`host:port` of ZooKeeper, with the chroot that the cluster was given."""
        return self._zookeeper.address

    @property
    def zookeeper_settings(self) -> dict[str, Any]:
        """The settings with which a tool looks at its znodes. A secure cluster has them for itself."""
        return {"zookeeper": self.zookeeper} | (self._security.zookeeper_settings() if self._security else {})

    @property
    def broker_ids(self) -> list[int]:
        return list(self._brokers)

    @property
    def controller_ids(self) -> list[int]:
        return list(self._controllers)

    def address(self, broker_id: int) -> str:
        """`host:port` of one broker."""
        return self._broker(broker_id).address

    def controller_address(self, controller_id: int) -> str:
        return self._controller(controller_id).address

    def metrics_port(self, broker_id: int) -> int | None:
        """The port on which a broker serves `/metrics`, if it does."""
        return self._broker(broker_id).member.metrics_port

    def controller_metrics_port(self, controller_id: int) -> int | None:
        return self._controller(controller_id).member.metrics_port

    def pid(self, broker_id: int) -> int:
        """Raises SettingsError if the broker is not running."""
        process = self._broker(broker_id).process
        if process is None:
            raise SettingsError(f"broker {broker_id} does not run")
        return process.pid

    def log_path(self, broker_id: int) -> Path:
        """The broker's output."""
        return self._broker(broker_id).log_path

    def data_dir(self, broker_id: int) -> Path:
        return self._layout.broker(broker_id)

    def members(self) -> list[MemberStatus]:
        """Every process of the cluster, running or not: its own ZooKeeper, controllers, brokers."""
        services = [member_status(s.kind, s.member, s.process) for s in self._services()]
        if self._file.zookeeper.address is not None:
            return services
        return [member_status("zookeeper", self._file.zookeeper, self._zookeeper.process), *services]

    # --- the whole cluster --------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._detached:
            self._release()
        else:
            await self.stop(clean=not self._temporary)

    async def start(self, *, timeout_s: float = START_S_MAX) -> None:
        """Start every process that is not running, and wait until all serve.

        Raises ProcessFailed, with the end of the log, if a process dies or does not start to serve;
        then the processes started here are stopped again, and the earlier ones keep running. Raises
        SettingsError, and does nothing, if another process is starting or stopping this cluster, or
        has created one here meanwhile, or if a port of a new cluster is taken.
        """
        if self._is_new:
            await self._check_ports()
        with self._layout.lock():
            self._catch_up()
            await self._start(timeout_s)

    async def _check_ports(self) -> None:
        """Raises SettingsError if a port is taken, and leaves no folder then that was not there."""
        try:
            check_ports(list(self._file.ports()))
        except SettingsError:
            if self._temporary:
                await asyncio.to_thread(shutil.rmtree, self.directory)
            elif self.directory.exists():
                with self._layout.lock():  # refuses if another start in this folder has them
                    self._catch_up()
            raise

    async def _start(self, timeout_s: float) -> None:
        """`start`, under the lock."""
        down = [service for service in self._services() if not service.alive]
        had_zookeeper = self._zookeeper.alive
        try:
            self._make_files()
            if not had_zookeeper:
                self._zookeeper.start()
                self._save()
            for service in down:
                self._spawn(service)
            await self.wait_serving(timeout_s)
        except BaseException:
            await all_of(service.stop(clean=False) for service in down)
            if not had_zookeeper:
                await self._zookeeper.discard()
            await self._leave()
            raise

    async def wait_serving(self, timeout_s: float = START_S_MAX) -> None:
        """Return once ZooKeeper and every started broker and controller serve. Raises ProcessFailed."""
        running = [service for service in self._services() if service.process is not None]
        waits: list[Awaitable[None]] = [serving(service, timeout_s) for service in running]
        await all_of([self._zookeeper.wait_serving(timeout_s), *waits])

    async def stop(self, *, clean: bool = True) -> int:
        """Stop everything: brokers and controllers first, by SIGTERM if `clean`, else by SIGKILL.

        A temporary folder is removed. Returns how many processes were running. Waits while another
        process starts or stops this cluster, and raises SettingsError if that takes too long.
        """
        async with locked(self._layout):
            self._catch_up()
            running = sum(member.alive for member in self.members())
            await all_of(service.stop(clean=clean) for service in self._services())
            await (self._zookeeper.stop() if clean else self._zookeeper.discard())
            await self._leave()
        return running

    def _catch_up(self) -> None:
        """Under the lock: read what other processes changed since this object read the folder.

        Raises SettingsError if one of them created a cluster where this one was to be new. An
        object that owns its processes knows them without the file.
        """
        if self._is_new:
            _refuse_cluster(self._layout)
        elif self._detached and self._layout.holds_cluster:
            file = self._layout.read()
            if file != self._file:
                self._release()
                self._take_up(self._layout, file, detached=True)

    async def _leave(self) -> None:
        """Record that the cluster is stopped, or remove its folder."""
        if self._temporary:
            await asyncio.to_thread(shutil.rmtree, self.directory)
        else:
            self._save()

    # --- brokers -------------------------------------------------------------------------------

    async def start_broker(
        self, broker_id: int, *, wait_s: float | None = START_S_MAX, **settings: Any
    ) -> None:
        """Start a stopped broker, from now on also with these settings, and wait until it serves.

        `wait_s` None: do not wait. Raises ProcessFailed, SettingsError.
        """
        await self._start_one(self._broker(broker_id), wait_s, settings)

    async def stop_broker(self, broker_id: int) -> None:
        """SIGTERM: the broker hands its leaderships over first. Waits until it has exited."""
        await self._stop(self._broker(broker_id), clean=True)

    async def kill_broker(self, broker_id: int) -> None:
        """SIGKILL. Waits until it has exited."""
        await self._stop(self._broker(broker_id), clean=False)

    def pause_broker(self, broker_id: int) -> None:
        """SIGSTOP: the broker hangs, and its connections stay open."""
        self._broker(broker_id).pause()

    def resume_broker(self, broker_id: int) -> None:
        self._broker(broker_id).resume()

    async def add_broker(self, *, rack: str = "", wait_s: float | None = START_S_MAX, **settings: Any) -> int:
        """Add a broker with the cluster's settings and the given ones; returns its id."""
        service = self._added(rack, as_environment("broker", settings))
        await self.start_broker(service.member.id, wait_s=wait_s)
        return service.member.id

    async def grow(self, brokers: int, *, timeout_s: float = START_S_MAX) -> list[int]:
        """Add brokers until there are this many, and wait until they serve; returns the ids of the new ones.

        They get the cluster's settings, the next ports, and racks in turn. No replica moves to them by
        itself. Raises ProcessFailed, and adds none, if one dies or does not start to serve. Waits while
        another process starts or stops this cluster; raises SettingsError if that takes too long.
        """
        async with locked(self._layout):
            self._catch_up()
            added: list[Service] = []
            try:
                for _ in range(brokers - len(self._brokers)):
                    added.append(self._added(None, {}))
                self._make_files()
                for service in added:
                    self._spawn(service)
                await all_of(serving(service, timeout_s) for service in added)
            except BaseException:
                await all_of(service.stop(clean=False) for service in added)
                self._leave_out(added)
                raise
        return [service.member.id for service in added]

    async def remove_broker(self, broker_id: int) -> None:
        """Leave a stopped broker out of the cluster from now on; its data folder stays.

        Raises SettingsError if it runs. Waits for the folder's lock as `grow` does.
        """
        async with locked(self._layout):
            self._catch_up()
            service = self._broker(broker_id)
            if service.alive:
                raise SettingsError(f"broker {broker_id} runs: stop it first")
            self._leave_out([service])

    def _added(self, rack: str | None, settings: Mapping[str, str]) -> Service:
        member = new_broker(self._file, {**self._broker_settings, **settings}, rack=rack)
        self._file.brokers.append(member)
        self._brokers[member.id] = self._service("broker", member)
        return self._brokers[member.id]

    def _leave_out(self, brokers: Sequence[Service]) -> None:
        for service in brokers:
            self._file.brokers.remove(service.member)
            del self._brokers[service.member.id]
        self._save()

    # --- controllers and ZooKeeper ---------------------------------------------------------------

    async def start_controller(
        self, controller_id: int, *, wait_s: float | None = START_S_MAX, **settings: Any
    ) -> None:
        """Start a stopped controller, from now on also with these settings, and wait until it serves.

        `wait_s` None: do not wait. Raises ProcessFailed, SettingsError.
        """
        await self._start_one(self._controller(controller_id), wait_s, settings)

    async def stop_controller(self, controller_id: int) -> None:
        """SIGTERM. Waits until it has exited."""
        await self._stop(self._controller(controller_id), clean=True)

    async def kill_controller(self, controller_id: int) -> None:
        """SIGKILL. Waits until it has exited."""
        await self._stop(self._controller(controller_id), clean=False)

    async def start_zookeeper(self, *, wait_s: float = START_S_MAX) -> None:
        """Start ZooKeeper on its old data and wait until it serves."""
        self._zookeeper.start()
        self._save()
        await self._zookeeper.wait_serving(wait_s)

    async def kill_zookeeper(self) -> None:
        """SIGKILL. Waits until it has exited."""
        await self._zookeeper.kill()
        self._save()

    def pause_zookeeper(self) -> None:
        """SIGSTOP: ZooKeeper hangs, and its connections stay open."""
        self._zookeeper.pause()

    def resume_zookeeper(self) -> None:
        self._zookeeper.resume()

    # --- internals -----------------------------------------------------------------------------

    def _services(self) -> list[Service]:
        return [*self._controllers.values(), *self._brokers.values()]

    def _broker(self, broker_id: int) -> Service:
        return _member(self._brokers, broker_id, "broker")

    def _controller(self, controller_id: int) -> Service:
        return _member(self._controllers, controller_id, "controller")

    async def _start_one(self, service: Service, wait_s: float | None, settings: Mapping[str, Any]) -> None:
        if service.alive:
            raise SettingsError(f"{service.kind} {service.member.id} runs already")
        service.member.settings |= as_environment(service.kind, settings)
        self._make_files()
        self._spawn(service)
        if wait_s is not None:
            await serving(service, wait_s)

    def _make_files(self) -> None:
        """Make what members read when they begin, where it is missing."""
        if self._security is not None:
            self._security.make([each.name for each in self._services()])

    def _spawn(self, service: Service) -> None:
        """Start it, and record it at once: `down` finds the processes of a start that was killed."""
        service.start()
        self._save()

    async def _stop(self, service: Service, *, clean: bool) -> None:
        await service.stop(clean=clean)
        self._save()

    def _save(self) -> None:
        """Record the running processes, so that another process finds them."""
        self._file.zookeeper.note(self._zookeeper.process)
        for service in self._services():
            service.member.note(service.process)
        self._layout.write(self._file)
        self._is_new = False

    def _release(self) -> None:
        """Give up the handles of the processes, which keep running."""
        for process in (self._zookeeper.process, *(service.process for service in self._services())):
            if process is not None:
                process.release()


def _refuse_cluster(layout: Layout) -> None:
    if layout.holds_cluster:
        raise SettingsError(f"{layout.directory} holds a cluster already: LocalCluster.open takes it up")


def _member(services: Mapping[int, Service], wanted: int, kind: str) -> Service:
    if wanted not in services:
        known = ", ".join(map(str, services)) or "none"
        raise SettingsError(f"there is no {kind} {wanted}; there are: {known}")
    return services[wanted]
