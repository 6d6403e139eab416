"""Protobuf's wire format by hand, for the one field that is large: records.

The library copies a bytes field twice on its way out, and where malloc gives large blocks back to the
system, as it does unless told otherwise, that costs a millisecond of page faults for each message of
512 KiB. Here it is copied once, into the message. What comes out is protobuf like any other.
"""

from __future__ import annotations

from typing import Final

_LENGTH_DELIMITED: Final = 2


def varint(number: int) -> bytes:
    """An unsigned number as protobuf writes lengths."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def tag(field_number: int) -> bytes:
    """What stands before a field of bytes, text or a message."""
    return varint(field_number << 3 | _LENGTH_DELIMITED)


def nested(parent_tag: bytes, head: bytes, records_tag: bytes, records: bytes) -> tuple[bytes, ...]:
    """The parts of one message within another: its serialized small fields, then its records."""
    if not records:
        return parent_tag, varint(len(head)), head
    records_head = records_tag + varint(len(records))
    size = len(head) + len(records_head) + len(records)
    return parent_tag, varint(size), head, records_head, records
