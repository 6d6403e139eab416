"""A record as the functions of a topology see it: with decoded key and value."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from strandline.records import RecordHeaders

K_co = TypeVar("K_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)
NewKey = TypeVar("NewKey")
NewValue = TypeVar("NewValue")


class Record(NamedTuple, Generic[K_co, V_co]):
    """Immutable, because several operators may get the same record: `with_key` and `with_value` return
    another one.

    A `key` of None is a record without a key, a `value` of None is a tombstone.
    """

    key: K_co | None
    value: V_co | None
    timestamp_ms: int
    headers: RecordHeaders = ()

    def with_key(self, key: NewKey | None) -> Record[NewKey, V_co]:
        """The same value, time and headers with another key."""
        return Record(key, self.value, self.timestamp_ms, self.headers)

    def with_value(self, value: NewValue | None) -> Record[K_co, NewValue]:
        """The same key, time and headers with another value."""
        return Record(self.key, value, self.timestamp_ms, self.headers)
