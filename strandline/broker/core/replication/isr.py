"""Membership of the ISR, written to ZooKeeper first, and the followers' progress.

Two rules carry the safety of the log (CORRECTNESS H3, I1–I9):

* while a change is in flight, both the old and the new membership count ("maximal ISR"), so the HW
  never passes the log end of a replica that might be elected;
* a follower joins only if it fetched in this epoch, in its present life, and has reached both the
  HW and the start of this epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from strandline.ids import BrokerEpoch, BrokerId, Offset
from strandline.vocabulary.metadata import IsrMember, Registration

SubscriptionId = tuple[BrokerEpoch, int]
"""Identifies a follower's subscription: its broker epoch, and the number of the subscription in that life."""

NO_SUBSCRIPTION: Final[SubscriptionId] = (BrokerEpoch(-1), -1)


@dataclass(slots=True)
class Progress:
    """The leader's knowledge of one follower in the leader's epoch."""

    broker_epoch: BrokerEpoch | None
    """The life in which it fetches now; None while it does not fetch."""
    log_end_offset: Offset
    """The follower's log holds everything below this; -1 before its first fetch in this epoch."""
    target: Offset
    """The LEO that it has to reach next."""
    behind_since: float | None
    """Since when it is short of `target`, or does not fetch; None while it fetches and has everything."""
    subscription_id: SubscriptionId = NO_SUBSCRIPTION
    """The newest subscription that reported a position, or the oldest one that may report.

    A broken stream may be read long after another one was opened: reports of older subscriptions are
    ignored.
    """
    refused: BrokerEpoch | None = None
    """A life that was found to be shutting down when it was about to join."""

    def note_position(self, log_end_offset: Offset, leader_end: Offset, now: float) -> None:
        """Note a position: once the target is reached, the leader's LEO is the next one."""
        self.log_end_offset = log_end_offset
        if log_end_offset >= self.target or self.behind_since is None:
            self.set_target(leader_end, now)

    def set_target(self, leader_end: Offset, now: float) -> None:
        """Aim at the leader's LEO; the clock runs from now if there is something to fetch."""
        self.target = leader_end
        self.behind_since = None if self.log_end_offset >= leader_end else now


@dataclass(frozen=True, slots=True)
class IsrChange:
    """A change that is being written to ZooKeeper; at most one is in flight (CORRECTNESS I5)."""

    before: tuple[IsrMember, ...]
    after: tuple[IsrMember, ...]
    version: int
    """Version of the `isr` znode that the compare-and-set expects."""


class InSyncReplicas:
    """The membership that ZooKeeper holds, and the change in flight."""

    def __init__(self, members: tuple[IsrMember, ...], version: int) -> None:
        self.members = members
        self.version = version
        self.change: IsrChange | None = None

    def maximal(self) -> frozenset[BrokerId]:
        """All brokers that any reader may count as in sync: committed and proposed members (H3)."""
        ids = {member.broker for member in self.members}
        if self.change is not None:
            ids.update(member.broker for member in self.change.after)
        return frozenset(ids)

    def size_min(self) -> int:
        """Members on the smaller side of a change in flight: it may be written already (H5)."""
        return len(self.members) if self.change is None else min(len(self.members), len(self.change.after))

    def __contains__(self, broker: object) -> bool:
        return broker in [member.broker for member in self.members]

    def propose(self, after: tuple[IsrMember, ...]) -> IsrChange:
        assert self.change is None, f"a change of the ISR is under way: {self.change}"
        self.change = IsrChange(self.members, after, self.version)
        return self.change

    def settle(self, members: tuple[IsrMember, ...], version: int) -> None:
        """Adopt what ZooKeeper holds now, whether the change in flight made it or not."""
        self.members, self.version, self.change = members, version, None


def is_late(
    member: IsrMember,
    progress: Progress,
    live: Mapping[BrokerId, Registration],
    now: float,
    keep_in_sync_s: float,
) -> bool:
    """True if this member of the ISR has to leave it.

    It has no registration, or the broker's life is not the one that joined (CORRECTNESS E4, I6), or it
    was short of its target, or fetched nothing, for KeepInSyncTime.
    """
    registration = live.get(member.broker)
    if registration is None or registration.epoch != member.broker_epoch:
        return True
    return progress.behind_since is not None and now - progress.behind_since >= keep_in_sync_s


def may_join(
    progress: Progress, registration: Registration | None, high_watermark: Offset, epoch_start: Offset
) -> bool:
    """True if a catching-up replica may return to the ISR (CORRECTNESS I1, I2, I6, I7)."""
    return (
        registration is not None
        and not registration.shutting_down
        and progress.broker_epoch == registration.epoch != progress.refused
        and progress.log_end_offset >= high_watermark
        and progress.log_end_offset >= epoch_start
    )


def why_changed(
    before: Sequence[IsrMember],
    after: Sequence[IsrMember],
    live: Mapping[BrokerId, Registration],
    suspects: Set[BrokerEpoch],
    why_out: Callable[[BrokerId], str | None],
) -> str:
    """Why members leave and join, in words: "broker 2 is late, broker 3 caught up"."""
    words = []
    for member in before:
        if member not in after:
            registration = live.get(member.broker)
            if registration is None:
                words.append(f"broker {member.broker} is gone")
            elif registration.epoch != member.broker_epoch:
                words.append(f"broker {member.broker} came back in another life")
            elif member.broker_epoch in suspects:
                words.append(f"broker {member.broker} does not answer")
            elif (why := why_out(member.broker)) is not None:
                words.append(f"broker {member.broker} {why}")
            else:
                words.append(f"broker {member.broker} is late")
    words += [f"broker {member.broker} caught up" for member in after if member not in before]
    return ", ".join(words)
