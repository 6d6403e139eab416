"""What a process sets in its own environment, before it imports what reads it."""

from __future__ import annotations

import os


def silence_grpc() -> None:
    """Have gRPC's C core log nothing: its lines are about what peers send, and any peer could fill the disk.

    It reads the variable when it is imported.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
