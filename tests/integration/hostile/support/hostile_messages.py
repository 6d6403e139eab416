"""Requests that no client of ours sends: each field at its bounds, counts that lie, bytes that are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from strandline.adapters.rpc.request_parsing import REQUEST_ELEMENTS_MAX
from strandline.config.limits import MESSAGE_BYTES_MAX
from strandline.records import Codec, encode_values, pack
from strandline.records.header import HEADER, BatchHeader, assemble
from tests.strandline.records.hostile_batches import timed

SIZE_MAX = MESSAGE_BYTES_MAX - 1024
DEPTH_MAX = 3
MANY = (REQUEST_ELEMENTS_MAX // 2, REQUEST_ELEMENTS_MAX, REQUEST_ELEMENTS_MAX + 1, 2_000_000)

NAMES = (
    "",
    ".",
    "..",
    "x/0/isr",
    "/controller",
    "\x00",
    "[/x]",
    "ü" * 249,
    "a" * 249,
    "a" * 250,
    "n" * 100_000,
)

_INTS: dict[int, tuple[int, ...]] = {
    FieldDescriptor.TYPE_INT32: (-(2**31), -2, -1, 0, 1, 2, 3, 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), -2, -1, 0, 1, 2, 1_700_000_000_000, 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 1, 2, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 1, 2, 2**64 - 1),
}


@cache
def batches() -> list[bytes]:
    """Record batches, from good to absurd; each has the CRC that it should have."""
    good = encode_values([b"good"], 1_700_000_000_000)
    header = BatchHeader.parse(good)
    body = good[-(len(good) - 61) :]
    bomb = pack([(None, None, (), 0)] * 1_000_000, codec=Codec.ZSTD)
    zeros = pack([(b"k", bytes(16_000_000), (), 0)], codec=Codec.ZSTD)
    return [
        good,
        good[:-1],
        good + good,
        b"",
        bytes(HEADER.size),
        assemble(header._replace(record_count=2**31 - 1, last_offset_delta=2**31 - 2), b""),
        assemble(header._replace(record_count=1_000_000, last_offset_delta=999_999, attributes=4), body),
        assemble(header._replace(max_timestamp=2**63 - 1, base_timestamp=2**63 - 1), body),
        assemble(header._replace(base_timestamp=-(2**63), max_timestamp=-(2**63)), body),
        timed(2**63 - 1, (1, b"later than all time")),
        timed(-(2**63), (0, None)),
        assemble(header._replace(producer_id=2**63 - 1, producer_epoch=32767, base_sequence=2**31 - 1), body),
        assemble(header._replace(attributes=4), bytes(1000)),
        assemble(header._replace(attributes=0x7F), body),
        assemble(header, b"\xff" * 1000),
        bomb.seal()[: 512 * 1024],
        zeros.seal(),
    ]


class Hostile:
    """Makes messages of at most `size_max` bytes. `names`: topics that are there. `given`: the values of some
    fields, by their names."""

    def __init__(
        self,
        random: Random,
        names: Sequence[str],
        given: Mapping[str, Callable[[Random], Any]] | None = None,
        *,
        size_max: int = SIZE_MAX,
    ) -> None:
        self._random = random
        self._names = [name for name in (*NAMES, *names, *names, *names) if len(name) < size_max]
        self._given = given or {}
        self._batches = [batch for batch in batches() if len(batch) < size_max]
        self._size_max = size_max

    def message(self, kind: type[Message]) -> bytes:
        """A request, serialized: most parse, some do not."""
        random = self._random
        message = kind()
        self._fill(message, 0)
        data = message.SerializeToString()[: self._size_max]
        match random.randrange(10):
            case 0:  # damaged
                spoilt = bytearray(data or b"\x0a")
                for _ in range(random.choice((1, 10))):
                    spoilt[random.randrange(len(spoilt))] = random.randrange(256)
                return bytes(spoilt)
            case 1:
                return random.randbytes(min(random.choice((1, 100, 100_000)), self._size_max))
            case 2:  # a repeated field of more empty elements than any request needs
                return self._many_empty(message) or data
            case _:
                return data

    def _many_empty(self, message: Message) -> bytes:
        repeated = [f for f in message.DESCRIPTOR.fields if f.is_repeated and f.message_type is not None]
        if not repeated:
            return b""
        tag = (self._random.choice(repeated).number << 3) | 2
        return bytes([tag, 0]) * min(self._random.choice(MANY), self._size_max // 2)

    def _fill(self, message: Message, depth: int) -> None:
        for field in message.DESCRIPTOR.fields:
            if self._random.random() < 0.15:
                continue  # absent
            if field.name in self._given:
                setattr(message, field.name, self._given[field.name](self._random))
            elif field.is_repeated:
                self._fill_repeated(message, field, depth)
            elif field.message_type is not None:
                if depth < DEPTH_MAX:
                    self._fill(getattr(message, field.name), depth + 1)
            else:
                setattr(message, field.name, self._value(field))

    def _fill_repeated(self, message: Message, field: Any, depth: int) -> None:
        values = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            self._fill_map(values, field.message_type.fields_by_name["value"], depth)
            return
        count = self._random.choice((0, 1, 1, 2, 10, 1_000, 10_000))
        if field.message_type is None:
            values.extend([self._value(field)] * min(count, 1_000, self._size_max // 20))
            return
        if depth >= DEPTH_MAX:
            return
        budget = self._size_max // (2 if depth == 0 else 20)
        for _ in range(min(count, 10)):
            self._fill(values.add(), depth + 1)
            budget -= values[-1].ByteSize() + 8
        if values and budget > 0:
            one = values[-1]
            values.extend([one] * min(count - len(values), budget // (one.ByteSize() + 8)))

    def _fill_map(self, values: Any, field: Any, depth: int) -> None:
        for _ in range(self._random.choice((0, 1, 3))):
            key = self._random.choice(CONFIGS)
            if field.message_type is not None:
                self._fill(values[key], depth + 1)
            elif field.type == FieldDescriptor.TYPE_STRING:
                values[key] = self._random.choice(("", "compact", "-1", "9" * 100, "true"))
            else:
                values[key] = self._value(field)

    def _value(self, field: Any) -> Any:
        random = self._random
        if field.type in _INTS:
            return random.choice(_INTS[field.type])
        match field.type:
            case FieldDescriptor.TYPE_BOOL:
                return random.random() < 0.5
            case FieldDescriptor.TYPE_STRING:
                return random.choice(self._names)
            case FieldDescriptor.TYPE_BYTES:
                return random.choice(self._batches)
            case FieldDescriptor.TYPE_ENUM:
                return random.choice((0, 1, 2, 99, -1))
            case FieldDescriptor.TYPE_DOUBLE:
                return random.choice((float("nan"), float("inf"), -1.0, 0.0))
        raise AssertionError(f"no value for {field.full_name}")


CONFIGS = ("", "cleanup.policy", "retention.ms", "min.insync.replicas", "max.message.bytes", "x" * 1_000)
