"""How the active controller changes the facts of a folder, such as quotas: it is their only writer.

Each fact is one compare-and-set, in one `multi` with the notice that brokers watch. A request that is refused
for one has its effect on the others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Generic, TypeVar

import structlog

from strandline.adapters.zookeeper.security.folder_reader import Folder, FolderReader, Stored
from strandline.controller.security.writes import Write, compare_and_set, each_alone
from strandline.controller.term.fenced_session import FencedSession
from strandline.errors import InvalidRequest, StrandlineError

logger = structlog.get_logger(__name__)

K = TypeVar("K")
V = TypeVar("V")

FACTS_MAX: Final = 10_000
"""Facts of one folder: each broker has all of them in memory."""
NAMES_BYTES_MAX: Final = 512 * 1024
"""Their names: ZooKeeper lists them in one message of at most 1 MB."""


class Facts(Generic[K, V]):
    """Those of one folder, in one epoch. Requests are carried out one after the other."""

    def __init__(
        self,
        session: FencedSession,
        folder: Folder[K, V],
        what: str,
        take: Callable[[Mapping[K, V]], None] = lambda found: None,
    ) -> None:
        """`what` the facts are, for people; `take` gets all of them when some have changed."""
        self._session = session
        self._folder = folder
        self._what = what
        self._take = take
        self._reader = FolderReader(session, folder)
        self._one = asyncio.Lock()

    @property
    def found(self) -> Mapping[K, V]:
        return self._reader.found

    async def load(self) -> None:
        """Reads all of them."""
        for path in self._folder.skeleton:
            await self._session.ensure_path(path)
        self._take(await self._reader.load())

    async def reconcile(self) -> None:
        """Finds what was changed by hand."""
        async with self._one:
            for found in (await self._reader.look(), await self._reader.compare()):
                if found is not None:
                    self._take(found)

    async def read(self, key: K) -> Stored[V]:
        """One fact, as its znode has it now."""
        return await self._reader.read(key)

    async def alter(
        self,
        wanted: Sequence[tuple[K, Callable[[V], V]]],
        *,
        validate_only: bool,
    ) -> list[StrandlineError | None]:
        """Changes facts, each by what makes the new one of the old one, which raises to refuse. Returns an
        outcome for each, in order."""
        async with self._one:
            refused = self._refused(wanted)
            if refused is not None:
                return [refused for _ in wanted]
            times = Counter(key for key, _ in wanted)
            errors: dict[K, StrandlineError | None] = {
                key: InvalidRequest(f"{key} stands more than once in the request")
                for key in times
                if times[key] > 1
            }
            once = {key: after for key, after in wanted if times[key] == 1}
            found: dict[K, V] = {}
            errors |= await each_alone(partial(self._write, once, found, validate_only=validate_only), once)
            if not validate_only:
                self._take(self._reader.put(found))
            return [errors[key] for key, _ in wanted]

    def _refused(self, wanted: Sequence[tuple[K, Callable[[V], V]]]) -> InvalidRequest | None:
        """Why none can be added; None: all of the request's can be there."""
        new = [key for key, after in wanted if key not in self.found and self._is_added(after)]
        if not new:
            return None
        keys = {*self.found, *new}
        if len(keys) > FACTS_MAX:
            return InvalidRequest(
                f"there would be {self._what} of {len(keys)}, more than {FACTS_MAX}", limit=FACTS_MAX
            )
        if sum(len(self._folder.name(key)) for key in keys) > NAMES_BYTES_MAX:
            return InvalidRequest(
                f"the names of all that have {self._what} would have more than {NAMES_BYTES_MAX} bytes",
                limit=NAMES_BYTES_MAX,
            )
        return None

    def _is_added(self, after: Callable[[V], V]) -> bool:
        try:
            return bool(after(self._folder.empty()))
        except StrandlineError:
            return False

    async def _write(
        self, wanted: Mapping[K, Callable[[V], V]], found: dict[K, V], key: K, *, validate_only: bool
    ) -> None:
        """Writes what a fact is to be, and notes in `found` what it is then."""

        async def prepare() -> Write[V] | None:
            stored = await self._reader.read(key)
            after = wanted[key](stored.value)
            found[key] = stored.value
            if validate_only or stored.holds(after):
                return None
            return Write(after, self._folder.writes(key, stored, after), partial(self._stands, key, after))

        written = await compare_and_set(self._session, prepare, f"{self._what} of {key} were")
        if written is not None:
            found[key] = written
            logger.info(f"{self._what} changed", of=str(key), now=written)

    async def _stands(self, key: K, value: V) -> bool:
        return (await self._reader.read(key)).holds(value)
