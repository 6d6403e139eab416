"""What a service sets for its own process."""

from __future__ import annotations

import gc
import os
from typing import Final

OBJECTS_BETWEEN_COLLECTIONS: Final = 10_000
"""Python's own 700 suits programs with few objects. A broker has hundreds for each replica: collections took
a quarter of the event loop's time while replicas were made, and 70 ms in one go with a thousand of them."""
YOUNG_COLLECTIONS: Final = 20
"""Collections of one generation for each of the next."""


def silence_grpc() -> None:
    """Have gRPC's C core log nothing: its lines are about what peers send, and any peer could fill the disk.

    It reads the variable when it is imported.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def begin_collections() -> None:
    """Collect garbage from now on, after the imports. Modules and classes stay, so no collection looks at
    them."""
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, YOUNG_COLLECTIONS, YOUNG_COLLECTIONS)
    gc.enable()
