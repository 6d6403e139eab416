"""Holds what all parts of a broker share during one ZooKeeper session."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.broker.events.replica_events import EventRecorder
from strandline.broker.membership.peers import Peers
from strandline.broker.membership.registration import SessionRegistration
from strandline.broker.replicas.manager import ReplicaManager
from strandline.config.services.broker import BrokerSettings
from strandline.ids import BrokerId
from strandline.ports import Clock, Coordination


@dataclass(frozen=True, slots=True)
class SessionContext:
    """The shared objects of one ZooKeeper session. An object with an old context cannot act for a new session
    (E13)."""

    manager: ReplicaManager
    coordination: Coordination
    registration: SessionRegistration
    recorder: EventRecorder

    @property
    def me(self) -> BrokerId:
        return self.manager.me

    @property
    def peers(self) -> Peers:
        return self.manager.peers

    @property
    def settings(self) -> BrokerSettings:
        return self.manager.settings

    @property
    def clock(self) -> Clock:
        return self.manager.clock
