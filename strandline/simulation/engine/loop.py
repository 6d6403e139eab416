"""An event loop on virtual time that runs many processes in one thread.

Each callback belongs to the process in whose context it was scheduled. The callbacks of a killed process are
dropped: nothing of it runs again, not even a `finally`. The callbacks of a paused process are held until it
is resumed. Callbacks that belong to no process belong to the world itself: the network, a test, the faults.

Time passes only when nothing is ready, and then jumps to the next timer. Nothing depends on real time, real
threads, or addresses of objects: tasks and futures are hashed by a number, since code keeps them in sets.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from asyncio import events
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from itertools import count
from math import inf
from random import Random
from types import CoroutineType
from typing import Any, Final, Self, TypeVar, TypeVarTuple

from strandline.security.principal import ANONYMOUS
from strandline.simulation.engine.clocks import NS_PER_S, MachineClock
from strandline.simulation.engine.no_outside import NoOutside

logger = logging.getLogger(__name__)

T = TypeVar("T")
Args = TypeVarTuple("Args")
ExceptionHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]

CALLBACKS_AT_ONE_MOMENT_MAX: Final = 1_000_000
"""More of them without any passing of time are a loop that never waits."""
THREAD_START_S_MAX: Final = 0.000_2
"""How long a function for another thread waits until it runs, at most; and its result until it is seen."""
UNWINDING_WAITS_MAX: Final = 100
"""How often a coroutine that is deleted may wait in its `finally` clauses."""


class Deadlock(AssertionError):
    """Nothing is ready, and no timer will ever make anything ready."""


class Overdue(AssertionError):
    """The work has not ended in its time."""


class TimeStandsStill(AssertionError):
    """Something runs on and on without waiting."""


class Killed(BaseException):
    """Unwinds the call stack of a process that ended within one of its own steps."""


class Process:
    """One process, as the loop knows it: from its start to its death."""

    def __init__(self, name: str, host: str, clock: MachineClock) -> None:
        """`host` is the address of its machine."""
        self.name = name
        self.host = host
        self.clock = clock
        self.alive = True
        self.paused = False
        self.running = True
        """It is alive and not paused."""
        self.principal = ANONYMOUS
        """Who makes its calls: what a certificate proves elsewhere."""
        self.on_exception: ExceptionHandler | None = None
        """Handles what a callback of this process raises."""
        self.context = Context()
        """What is scheduled in a copy of it belongs to this process."""
        self.context.run(_process.set, self)
        self._held: list[_Handle] = []

    def hold(self, handle: _Handle) -> None:
        """Keep what came due while the process is paused."""
        self._held.append(handle)

    def release(self) -> list[_Handle]:
        """What came due during a pause, in order."""
        held, self._held = self._held, []
        return held

    def forget_held(self) -> None:
        """Nothing of a dead process runs again."""
        self._held.clear()


_process: Final[ContextVar[Process | None]] = ContextVar("process", default=None)


WORLD: Final = Context()
"""What is scheduled in it belongs to no process."""


def current_process() -> Process | None:
    """The process whose code runs; None: it is the world's."""
    return _process.get()


class _Handle(asyncio.TimerHandle):
    """A callback that knows its process.

    The loop makes one for each callback, so it sets the few attributes that are used, and calls no parent.
    """

    __slots__ = ("process",)

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self.process: Process | None = context.get(_process)

    def at(self, when: float) -> Self:
        """`when` is in seconds on the clock of its process."""
        self._when = when
        return self

    def cancel(self) -> None:
        """A cancelled timer stays with the loop until it is due."""
        self._callback, self._args = _nothing, ()

    def cancelled(self) -> bool:
        return self._callback is _nothing

    def __repr__(self) -> str:
        return f"<callback {self._callback!r} of {self.process and self.process.name}>"


def _nothing() -> None:
    """The callback of a cancelled handle."""


class _Task(asyncio.Task[T]):
    """A task whose place in a set does not depend on its address."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, T],
        number: int,
        *,
        loop: asyncio.AbstractEventLoop,
        name: object,
        context: Context,
    ) -> None:
        self._number = number
        self.process: Process | None = context.get(_process)
        super().__init__(
            coroutine, loop=loop, name=f"Task-{number}" if name is None else str(name), context=context
        )

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def number(self) -> int:
        return self._number


class _Future(asyncio.Future[T]):
    """A future whose place in a set does not depend on its address. It gets a number when it is first hashed,
    which is rare."""

    _number: int | None = None

    def __hash__(self) -> int:
        if self._number is None:
            loop = self.get_loop()
            assert isinstance(loop, SimulatedLoop)
            self._number = loop.next_number()
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimulatedLoop(NoOutside):
    """See the module. `new` makes one, `run` is its entrance, `close` ends everything that is still pending.

    It has what tasks need. The rest of an asyncio loop would reach outside: it raises NotPlayed, or plain
    NotImplementedError.
    """

    @classmethod
    def new(cls, random: Random) -> Self:
        """`random` draws when functions for other threads run."""
        return cls(random)

    def __init__(self, random: Random) -> None:
        self._random = random
        self._now_ns = 0
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[int, int, _Handle]] = []
        self._numbers = count(1)
        self._remains: list[asyncio.Task[Any]] = []
        """The pending tasks of dead processes: were they deleted, Python would run their `finally`."""
        self._running = False
        self._closed = False
        self._on_exception: ExceptionHandler | None = None
        self.callbacks_at_one_moment_max = CALLBACKS_AT_ONE_MOMENT_MAX

    # --- time --------------------------------------------------------------------------------

    def now_ns(self) -> int:
        """Nanoseconds of the world since the simulation began."""
        return self._now_ns

    def time(self) -> float:
        """Seconds on the monotonic clock of the running process, or of the world."""
        process, now_ns = _process.get(), self.now_ns()
        return now_ns / NS_PER_S if process is None else process.clock.seconds(now_ns)

    # --- schedule ----------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """`delay` is in seconds on the clock of the process to which the callback belongs."""
        handle = _Handle(callback, args, copy_context() if context is None else context).at(
            self.time() + delay
        )
        rate = 1.0 if handle.process is None else handle.process.clock.rate
        return self._at(self.now_ns() + int(max(delay, 0.0) * NS_PER_S / rate) + 1, handle)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """`when` is in seconds on the clock of the process to which the callback belongs."""
        handle = _Handle(callback, args, copy_context() if context is None else context).at(when)
        clock = None if handle.process is None else handle.process.clock
        when_ns = int(when * NS_PER_S) + 1 if clock is None else clock.world_ns(when)
        return self._at(max(when_ns, self.now_ns() + 1), handle)

    def call_at_ns(
        self, when_ns: int, callback: Callable[..., object], *args: Any, context: Context
    ) -> asyncio.TimerHandle:
        """`when_ns` is in nanoseconds of the world."""
        handle = _Handle(callback, args, context)
        heapq.heappush(self._timers, (when_ns, next(self._numbers), handle))
        return handle

    def _at(self, when_ns: int, handle: _Handle) -> asyncio.TimerHandle:
        heapq.heappush(self._timers, (when_ns, next(self._numbers), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def next_number(self) -> int:
        """A number that nothing else of this loop has."""
        return next(self._numbers)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: object = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        within = copy_context() if context is None else context
        return _Task(coro, next(self._numbers), loop=self, name=name, context=within)

    def start(self, process: Process, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine as the first task of a process."""
        return self.create_task(work, name=process.name, context=process.context.copy())

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """The function runs a little later, as in another thread, and not at all once its process is dead."""
        future: asyncio.Future[T] = self.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)  # type: ignore[arg-type]  # the function returned it
            else:
                future.set_exception(error)

        def run() -> None:
            if future.cancelled():
                return
            result, error = None, None
            try:
                result = func(*args)
            except Exception as raised:
                error = raised
            self.call_later(self._random.uniform(0, THREAD_START_S_MAX), settle, result, error)

        self.call_later(self._random.uniform(0, THREAD_START_S_MAX), run)
        return future

    # --- processes ---------------------------------------------------------------------------

    def kill(self, process: Process) -> None:
        """Nothing of the process runs from here on."""
        process.alive = process.running = False
        pending = sorted((task for task in asyncio.all_tasks(self) if _belongs(task, process)), key=hash)
        for task in pending:
            asyncio._unregister_task(task)  # or every later `all_tasks` would look at it again
        self._remains += pending
        process.forget_held()

    def pause(self, process: Process) -> None:
        """Hold everything of the process, as SIGSTOP does."""
        process.paused, process.running = True, False

    def resume(self, process: Process) -> None:
        """Run what was held, in the order in which it came due."""
        process.paused, process.running = False, process.alive
        self._ready.extend(process.release())

    # --- run ---------------------------------------------------------------------------------

    def run(self, work: Generator[Any, None, T] | Awaitable[T], limit_s: float = inf) -> T:
        """Run work of the world to its end, and everything else meanwhile. Raises what it raises,
        Deadlock, and Overdue if it has not ended after `limit_s`, the world's time."""
        with self._current():
            waited: asyncio.Future[T] = asyncio.ensure_future(work, loop=self)  # type: ignore[arg-type]  # noqa: TID251  # run_until_complete takes both
            self._turn(waited, self._now_ns + limit_s * NS_PER_S)
        return waited.result()

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        return self.run(future)

    def _turn(self, until: asyncio.Future[Any], end_ns: float) -> None:
        """Run callbacks until the future is done, or a timer is later than `end_ns`."""
        ready, timers, at_once = self._ready, self._timers, 0
        while not until.done():
            if ready:
                handle = ready.popleft()
                at_once += 1
                if at_once > self.callbacks_at_one_moment_max:
                    raise TimeStandsStill(f"at {self._now_ns} ns: {handle!r}")
            elif timers:
                if timers[0][0] > end_ns:
                    raise Overdue
                self._now_ns, _, handle = heapq.heappop(timers)
                at_once = 0
            else:
                raise Deadlock(f"at {self._now_ns} ns nothing is left that could happen")
            self._step(handle)

    def _step(self, handle: _Handle) -> None:
        """Run a callback, unless its process is dead or paused."""
        process = handle.process
        if process is not None and not process.running:
            if process.alive:
                process.hold(handle)
        else:
            try:
                handle._context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                message = f"Exception in callback {handle!r}"
                self.call_exception_handler({"message": message, "exception": error, "handle": handle})

    @contextlib.contextmanager
    def _current(self) -> Generator[None, None, None]:
        """This loop as the running one."""
        if self._running:
            raise RuntimeError("the loop runs already")
        before = events._get_running_loop()
        self._running = True
        events._set_running_loop(None)
        events._set_running_loop(self)
        try:
            yield
        finally:
            events._set_running_loop(before)
            self._running = False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def get_debug(self) -> bool:
        return False

    def close(self) -> None:
        """Delete what is pending. Coroutines of dead and living processes are closed in their order; what
        they do meanwhile has no effect."""
        if self._closed:
            return
        self._closed = True
        with self._current():
            left = [*asyncio.all_tasks(self), *self._remains]
            while left:
                for task in sorted(left, key=hash):
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _close(task)
                    asyncio._unregister_task(task)
                left = [*asyncio.all_tasks(self)]  # begun by what was unwound
        self._remains.clear()
        self._ready.clear()
        self._timers.clear()

    # --- exceptions --------------------------------------------------------------------------

    def set_exception_handler(self, handler: ExceptionHandler | None) -> None:
        """Handle what callbacks of the running process raise, or those of the world."""
        process = _process.get()
        if process is None:
            self._on_exception = handler
        else:
            process.on_exception = handler

    def get_exception_handler(self) -> ExceptionHandler | None:
        process = _process.get()
        return self._on_exception if process is None else process.on_exception

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._closed:
            return
        source = context.get("handle") or context.get("task") or context.get("future")
        process = getattr(source, "process", None) or _process.get()
        if process is not None and not process.alive:
            return
        handler = self._on_exception if process is None else process.on_exception
        if handler is None:
            self.default_exception_handler(context)
        elif process is None:
            handler(self, context)
        else:
            with contextlib.suppress(Killed):
                process.context.copy().run(handler, self, context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        logger.error("%s", context.get("message"), exc_info=context.get("exception"))


def _belongs(task: asyncio.Task[Any], process: Process) -> bool:
    return isinstance(task, _Task) and task.process is process


def _close(task: asyncio.Task[Any]) -> None:
    """Unwind a coroutine that nothing will ever resume, also where its `finally` waits again.

    `coroutine.close` would leave the inner coroutines to the garbage collector where they wait again.
    """
    coroutine = task.get_coro()
    assert isinstance(coroutine, CoroutineType)
    for _ in range(UNWINDING_WAITS_MAX):
        if coroutine.cr_frame is None:
            return
        with contextlib.suppress(BaseException):
            coroutine.throw(Killed())
