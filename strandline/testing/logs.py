"""The logs of brokers and controllers, which a test sees as those of any library: through `logging`.

pytest shows them with a test that fails. They have no effect unless `logging` is set up to show them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import structlog

from strandline.simulation.engine.clocks import NS_PER_S
from strandline.simulation.engine.loop import SimulatedLoop, current_process

LOGGER: Final = "strandline.testing.cluster"


class ServiceLogs:
    """Has structlog write to `logging` from `install` to `restore`, unless the program has set it up."""

    def __init__(self) -> None:
        self._installed = False

    def install(self) -> None:
        if structlog.is_configured():
            return
        self._installed = True
        structlog.configure(
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.stdlib.add_log_level,
                structlog.processors.format_exc_info,
                _line,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            logger_factory=lambda *_: logging.getLogger(LOGGER),
            cache_logger_on_first_use=False,
        )

    def restore(self) -> None:
        if self._installed:
            self._installed = False
            structlog.reset_defaults()


def _line(_logger: Any, _method: str, event: structlog.typing.EventDict) -> tuple[tuple[str], dict[str, Any]]:
    """One line: the time of the cluster, the process, the event and its fields."""
    event.pop("level", None)
    process, loop = current_process(), asyncio._get_running_loop()
    time = f"{loop.now_ns() / NS_PER_S:.3f} s " if isinstance(loop, SimulatedLoop) else ""
    what, exception = event.pop("event", ""), event.pop("exception", None)
    fields = "".join(f" {name}={value!r}" for name, value in event.items())
    name = "" if process is None else f"{process.name}: "
    return (f"{time}{name}{what}{fields}" + (f"\n{exception}" if exception else ""),), {}
