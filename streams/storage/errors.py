"""What may be wrong with a store on disk. Other failures are `StorageFailed`: a full disk, an I/O error."""

from __future__ import annotations

from strandline.errors import StrandlineError


class StoreInUse(StrandlineError):
    """Another process has this store, or another task of this one."""


class StoreCorrupt(StrandlineError):
    """The disk gave back other bytes than were written. Opened again, the store begins anew and empty, to be
    restored from the changelog (CORRECTNESS S6)."""


class StoreClosed(StrandlineError):
    """The store was closed or cleared since; a range that was begun before has no end to tell."""
