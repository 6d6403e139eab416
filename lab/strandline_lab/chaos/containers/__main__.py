"""`python -m strandline_lab.chaos.containers COMMAND…`: runs a command with a Docker engine and the images.

It uses an engine that already answers, or starts one while the command runs. DOCKER_HOST names the engine to
the command.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Final

from strandline.local.die_with_parent import dying_with_this_process
from strandline_lab.chaos.containers.engine import NoEngine, engine
from strandline_lab.chaos.signals import INTERRUPTED, cancelled_by_signals
from strandline_lab.chaos.world import WorldFailed

FAILED: Final = 1
NO_ENGINE: Final = os.EX_UNAVAILABLE
WRONG_USE: Final = 2


async def run_with_engine(command: Sequence[str]) -> int:
    """Runs the command and returns its exit status.

    Raises WorldFailed (NoEngine if none can be had), and CancelledError after SIGINT or SIGTERM.
    """
    cancelled_by_signals()
    program = shutil.which(command[0])
    if program is None:
        raise WorldFailed(f"there is no program {command[0]!r}")
    print(
        "Docker engine: looking for one, or starting one; the first time on a machine takes minutes.",
        flush=True,
    )
    async with engine() as running:
        where = "started here for this run" if running.own else "that already answers"
        print(f"Docker engine: one {where}. Building images.", flush=True)
        await running.build()
        process = await asyncio.create_subprocess_exec(
            *dying_with_this_process(), program, *command[1:], env=running.environment
        )
        try:
            return await process.wait()
        finally:
            if process.returncode is None:  # interrupted: the command has to be gone before its engine
                process.terminate()
                await process.wait()


def main() -> int:
    """Returns the command's exit status. Returns 69 if there is no engine, and 1 if an image cannot be built
    or the program does not exist; standard error has the reason."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return WRONG_USE
    try:
        return asyncio.run(run_with_engine(sys.argv[1:]))
    except WorldFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return NO_ENGINE if isinstance(error, NoEngine) else FAILED
    except asyncio.CancelledError:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
