"""The members of one local cluster: what its file says of each, and a handle of the process that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strandline.errors import SettingsError
from strandline.local.console_process import ConsoleProcess, new_console
from strandline.local.layout import ClusterFile, Layout, MemberFile
from strandline.local.members.member_status import MemberStatus, member_status
from strandline.local.members.new_cluster import new_broker
from strandline.local.ports import LOOPBACK
from strandline.local.process import Spawn
from strandline.local.secure.files import ClusterSecurity
from strandline.local.service import Service
from strandline.local.zookeeper_process import RunningZooKeeper, ZooKeeperProcess


class Members:
    """ZooKeeper, controllers and brokers. Those that the file says are running are found again.

    `is_new` until the folder has the file: then another process may make a cluster there.
    """

    def __init__(
        self, layout: Layout, file: ClusterFile, *, detached: bool, spawn: Spawn, is_new: bool
    ) -> None:
        self.layout = layout
        self.file = file
        self.is_new = is_new
        self._detached = detached
        self._spawn = spawn
        own_zookeeper = file.zookeeper.address is None
        self.security = ClusterSecurity(layout, own_zookeeper=own_zookeeper) if file.secure else None
        self.zookeeper = self._zookeeper()
        self.controllers = {member.id: self._service("controller", member) for member in file.controllers}
        self.brokers = {member.id: self._service("broker", member) for member in file.brokers}
        self.console = None if file.console is None else self._console_of(file.console)
        """None until the cluster was asked for one."""

    def _console_of(self, member: MemberFile) -> ConsoleProcess:
        console = ConsoleProcess(member, self.layout, secure=self.file.secure, detached=self._detached)
        console.find()
        return console

    def _zookeeper(self) -> ZooKeeperProcess | RunningZooKeeper:
        member, layout = self.file.zookeeper, self.layout
        if member.address is not None:
            return RunningZooKeeper(member.address)
        log_path = layout.log("zookeeper")
        tls = None if self.security is None else self.security.zookeeper_server
        server = ZooKeeperProcess(
            layout.zookeeper, member.port, log_path=log_path, detached=self._detached, tls=tls
        )
        if member.process_id is not None:
            server.find(member.process_id)
        return server

    def _service(self, kind: str, member: MemberFile) -> Service:
        name = f"{kind}-{member.id}"
        log_path = self.layout.log(name)
        fixed: dict[str, Any] = {"host": LOOPBACK, "zookeeper": self.zookeeper.address}
        if kind == "broker":
            fixed |= {"data_dir": self.layout.broker(member.id), "rack": member.rack}
            if "replication_port" not in member.settings:
                fixed["replication_port"] = 0
        if self.security is not None:
            fixed |= self.security.service_settings(name) | self.security.zookeeper_settings(name)
        service = Service(kind, member, fixed, log_path=log_path, detached=self._detached, spawn=self._spawn)
        service.find()
        return service

    def services(self) -> list[Service]:
        """Controllers, then brokers, running or not."""
        return [*self.controllers.values(), *self.brokers.values()]

    def broker(self, broker_id: int) -> Service:
        """Raises SettingsError if there is none with this id."""
        return _member(self.brokers, broker_id, "broker")

    def controller(self, controller_id: int) -> Service:
        """Raises SettingsError if there is none with this id."""
        return _member(self.controllers, controller_id, "controller")

    def statuses(self) -> list[MemberStatus]:
        """Every process of the cluster, running or not: ZooKeeper if it is its own, controllers, brokers, and
        the console if it has one."""
        services = [member_status(s.kind, s.member, s.process) for s in self.services()]
        if self.console is not None:
            services.append(member_status(self.console.kind, self.console.member, self.console.process))
        if self.file.zookeeper.address is not None:
            return services
        return [member_status("zookeeper", self.file.zookeeper, self.zookeeper.process), *services]

    def add_broker(self, settings: Mapping[str, str], *, rack: str | None) -> Service:
        """Another broker, which neither runs nor is saved yet; the arguments are those of `new_broker`."""
        member = new_broker(self.file, dict(settings), rack=rack)
        self.file.brokers.append(member)
        self.brokers[member.id] = self._service("broker", member)
        return self.brokers[member.id]

    def with_console(self) -> ConsoleProcess:
        """The console, which the cluster has from now on; a new one neither runs nor is saved yet."""
        if self.console is None:
            self.file.console = new_console({port for port, _ in self.file.ports()})
            self.console = self._console_of(self.file.console)
        return self.console

    def leave_out(self, brokers: Sequence[Service]) -> None:
        """Leave stopped brokers out of the cluster from now on."""
        for service in brokers:
            self.file.brokers.remove(service.member)
            del self.brokers[service.member.id]
        self.save()

    def make_files(self) -> None:
        """Make what members read when they begin, where it is missing."""
        if self.security is not None:
            self.security.make([each.name for each in self.services()])

    def save(self) -> None:
        """Record the running processes, so that another process finds them."""
        self.file.zookeeper.note(self.zookeeper.process)
        for service in self.services():
            service.member.note(service.process)
        if self.console is not None:
            self.console.member.note(self.console.process)
        self.layout.write(self.file)
        self.is_new = False

    def release(self) -> None:
        """Give up the handles of the processes, which keep running."""
        console = None if self.console is None else self.console.process
        services = (service.process for service in self.services())
        for process in (self.zookeeper.process, console, *services):
            if process is not None:
                process.release()


def _member(services: Mapping[int, Service], wanted: int, kind: str) -> Service:
    if wanted not in services:
        known = ", ".join(map(str, services)) or "none"
        raise SettingsError(f"there is no {kind} {wanted}; there are: {known}")
    return services[wanted]
