"""Errors of a store on disk. Other failures are `StorageFailed`: a full disk, an I/O error."""

from __future__ import annotations

from strandline.errors import StrandlineError


class StoreInUse(StrandlineError):
    """Another process, or another task of this one, has the store open."""


class StoreCorrupt(StrandlineError):
    """The disk returned other bytes than were written. When it is opened again, the store is emptied and
    restored from the changelog (CORRECTNESS S6)."""


class StoreClosed(StrandlineError):
    """The store was closed or cleared; a range that began before cannot be completed."""
