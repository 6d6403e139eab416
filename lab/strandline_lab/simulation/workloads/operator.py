"""An operator, who asks for one operation on the cluster after the other while there are faults."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from strandline.client.admin.admin import Admin
from strandline.errors import Outcome, StrandlineError
from strandline.host import Host
from strandline_lab.simulation.settling import until_settled
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.workload import Workload, joined

REQUEST_TIMEOUT_MS: Final = 5_000
AGAIN_S: Final = 0.5
"""Between two looks at what is to end."""

Operation = Callable[[Admin], Awaitable[None]]


class Operator(Workload):
    """Nothing has to exist before. `pause_s` is that between two operations, on average."""

    def __init__(self, name: str, pause_s: float, stage: Stage) -> None:
        self._stage = stage
        self._pause_s = pause_s
        self._random = stage.random(name)
        self._client = stage.client(f"{name} operator")
        self._wrong: list[str] = []
        self._done: dict[str, int] = {"answered": 0, "refused": 0, "unknown": 0}
        self._over = asyncio.Event()

    @abstractmethod
    def _kinds(self) -> Sequence[Operation]:
        """The operations to choose from, each as often as it is likely."""

    @abstractmethod
    async def _end_moves(self, host: Host) -> None:
        """After the faults: return once nothing that was begun is under way."""

    @abstractmethod
    async def _look(self, host: Host) -> None:
        """Reads what `problems` needs; the cluster has settled."""

    async def prepare(self) -> None:
        """Nothing has to exist before."""

    async def run(self) -> None:
        await joined(self._client.run(self._operate(self._client.host)))
        self._over.set()

    async def finish(self) -> None:
        await self._over.wait()
        await self._client.run(self._end_moves(self._client.host))
        await until_settled(self._stage)
        await self._client.run(self._look(self._client.host))

    async def _operate(self, host: Host) -> None:
        while not self._stage.faults_ended.is_set():
            await host.clock.sleep(self._random.expovariate(1 / self._pause_s))
            await self._do(host, self._random.choice(self._kinds()))

    async def _do(self, host: Host, operation: Operation) -> None:
        try:
            async with self._admin(host) as admin:
                await operation(admin)
            outcome = "answered"
        except StrandlineError as error:
            outcome = "unknown" if error.outcome is Outcome.UNKNOWN else "refused"
        self._done[outcome] += 1

    def _admin(self, host: Host) -> Admin:
        return Admin(self._stage.cluster.bootstrap, host=host, request_timeout_ms=REQUEST_TIMEOUT_MS)

    async def _prefer(self, admin: Admin) -> None:
        _ = await admin.elect_preferred()
