"""The messages of a leader on one stream: those that the follower has not acknowledged, and beats.

A message without pushes is a beat: it says that the leader is there. The first one says that the leader keeps
beats; later ones are sent whenever it has sent nothing for `BEAT_S`.
"""

from __future__ import annotations

from collections import deque

from strandline.broker.membership.pulse import BEAT_S
from strandline.errors import InvalidRequest


class PushWindow:
    """The messages from one leader to one follower, by sequence number. At most `size` are unacknowledged."""

    def __init__(self, size: int, opened_at: float) -> None:
        """`opened_at`: when the follower opened the stream."""
        self._size = size
        self._sequence = 0
        self._sent: deque[tuple[int, float]] = deque()
        """(sequence, send time) of unacknowledged messages."""
        self._sent_at = float("-inf")
        self.acknowledged_at = float("-inf")
        """When the last acknowledged message was sent."""
        self.heard_at = opened_at
        """When the follower sent its last message, of any content."""
        self.has_beaten = False
        """True once a beat was sent: until then the follower does not know that this leader keeps them."""

    @property
    def is_open(self) -> bool:
        return len(self._sent) < self._size

    @property
    def next_sequence(self) -> int:
        """The number of the next message."""
        return self._sequence + 1

    def sent(self, now: float) -> int:
        """Notes that the next message is sent, and returns its number."""
        self._sequence += 1
        self._sent.append((self._sequence, now))
        self._sent_at = now
        return self._sequence

    def acknowledge(self, sequence: int, now: float) -> None:
        """Notes a message of the follower, which has everything up to this one. Raises InvalidRequest for one
        that was never sent."""
        if sequence > self._sequence:
            raise InvalidRequest(f"message {sequence} was acknowledged, {self._sequence} were sent")
        self.heard_at = now
        while self._sent and self._sent[0][0] <= sequence:
            self.acknowledged_at = self._sent.popleft()[1]

    def wants_beat(self, now: float) -> bool:
        """True if the follower should hear that this leader is there. While the window is closed it has
        messages to answer already."""
        return self.is_open and (not self.has_beaten or now - self._sent_at >= BEAT_S)

    @property
    def unanswered_since(self) -> float | None:
        """Since when the follower says nothing although it has a message to answer; None if it has none."""
        return max(self._sent[0][1], self.heard_at) if self._sent else None
