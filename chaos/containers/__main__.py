"""`python -m chaos.containers COMMAND…`: runs a command with a Docker engine and the images at hand.

The engine is the one that answers, or one that is started for the command's time; DOCKER_HOST names it to the
command, which finds it answering.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from typing import Final

from chaos.containers.engine import engine
from chaos.world import WorldFailed

FAILED: Final = 1
WRONG_USE: Final = 2


async def run_with_engine(command: Sequence[str]) -> int:
    """The command's exit status. Raises WorldFailed."""
    async with engine() as running:
        where = "started here for this run" if running.own else "that answers already"
        print(f"Docker engine: one {where}. Building images; the first time takes minutes.", flush=True)
        await running.build()
        process = await asyncio.create_subprocess_exec(*command, env=running.environment)
        try:
            return await process.wait()
        finally:
            if process.returncode is None:  # interrupted: the command has to be gone before its engine
                process.terminate()
                await process.wait()


def main() -> int:
    """The command's exit status; 1 if there is no engine or no image, and why on standard error."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return WRONG_USE
    # Whoever ends this run by SIGTERM wants the engine to be gone too, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return asyncio.run(run_with_engine(sys.argv[1:]))
    except WorldFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
