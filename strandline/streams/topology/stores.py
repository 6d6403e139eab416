"""The state of a topology: declarations, the interface for processors, and the interface to the runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from strandline.streams.topology.errors import RecordRefused
from strandline.streams.topology.names import check_name, check_serde
from strandline.streams.topology.serdes import Serde

SK = TypeVar("SK")
SV = TypeVar("SV")
Decoded = TypeVar("Decoded")


@dataclass(frozen=True, slots=True)
class Store(Generic[SK, SV]):
    """A store of a topology; there is one in each task of the subtopology that uses it.

    It is declared by value: two with the same name and serdes are the same store. Raises TopologyError for an
    illegal name, and for an invalid serde.
    """

    name: str
    key: Serde[SK]
    value: Serde[SV]

    def __post_init__(self) -> None:
        check_name(self.name, "store")
        check_serde(self.key, f"key serde of store {self.name!r}")
        check_serde(self.value, f"value serde of store {self.name!r}")


class KeyValueStore(Protocol[SK, SV]):
    """The state of a processor. It sees its own changes at once; others see them once they are committed."""

    def get(self, key: SK) -> SV | None:
        """The value, or None."""
        ...

    def put(self, key: SK, value: SV) -> None:
        """Set a value; None deletes, as in a changelog."""
        ...

    def delete(self, key: SK) -> None:
        """Delete a key; deleting a missing one changes nothing."""
        ...

    def range(self, start: SK | None = None, end: SK | None = None) -> Iterator[tuple[SK, SV]]:
        """Entries from `start` until before `end`, ordered by the keys' bytes; None: no bound.

        It is a snapshot at the call: later changes do not show.
        """
        ...


class RawState(Protocol):
    """State as bytes, with a namespace for each store; the runtime passes it to the pipeline of a task."""

    def get(self, store: str, key: bytes) -> bytes | None: ...

    def put(self, store: str, key: bytes, value: bytes | None) -> None:
        """Set a value; None deletes."""
        ...

    def range(self, store: str, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Entries from `start` until before `end`, in byte order, as at the call; None: no bound."""
        ...


class StoreView(Generic[SK, SV]):
    """The `KeyValueStore` view of one store of a task.

    Errors of its serdes are passed on with a note that names the store; a key of None raises RecordRefused.
    """

    def __init__(self, store: Store[SK, SV], state: RawState) -> None:
        self._store = store
        self._name = store.name
        self._state = state
        self._encode_key = store.key.encode
        self._encode_value = store.value.encode

    def get(self, key: SK) -> SV | None:
        data = self._state.get(self._name, self._key(key))
        return None if data is None else self._decoded(self._store.value, data, "value")

    def put(self, key: SK, value: SV) -> None:
        if value is None:
            self.delete(key)
            return
        encoded = self._key(key)
        try:
            data = self._encode_value(value)
        except Exception as error:
            error.add_note(f"while encoding a value for store {self._name!r}")
            raise
        self._state.put(self._name, encoded, data)

    def delete(self, key: SK) -> None:
        self._state.put(self._name, self._key(key), None)

    def range(self, start: SK | None = None, end: SK | None = None) -> Iterator[tuple[SK, SV]]:
        first = None if start is None else self._key(start)
        last = None if end is None else self._key(end)
        if first is not None and last is not None and first >= last:
            return iter(())
        return self._rows(self._state.range(self._name, first, last))

    def _rows(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[SK, SV]]:
        store = self._store
        for key, value in rows:
            yield self._decoded(store.key, key, "key"), self._decoded(store.value, value, "value")

    def _key(self, key: SK) -> bytes:
        if key is None:
            raise RecordRefused(f"store {self._name!r}: a key of None; filter records without a key before")
        try:
            return self._encode_key(key)
        except Exception as error:
            error.add_note(f"while encoding a key for store {self._name!r}")
            raise

    def _decoded(self, serde: Serde[Decoded], data: bytes, part: str) -> Decoded:
        try:
            return serde.decode(data)
        except Exception as error:
            error.add_note(f"while decoding a {part} of store {self._name!r}")
            raise
