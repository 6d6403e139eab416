"""Sends merged reads and writes through kazoo, and turns its answers into those of the port."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, assert_never

from kazoo.client import KazooClient

from strandline.adapters.zookeeper.connection.thread import Completion, Handler, LoopQueue
from strandline.adapters.zookeeper.kazoo_errors import ENDED, NOT_THE_CULPRIT, translate
from strandline.adapters.zookeeper.requests.chroot import Chroot
from strandline.adapters.zookeeper.requests.counts import RequestCounts
from strandline.adapters.zookeeper.requests.merged import Answered, Carried, Results
from strandline.adapters.zookeeper.requests.multi_read import MultiRead
from strandline.errors import CoordinationError
from strandline.ports import Check, Create, Delete, MultiFailed, Operation, SetData, Znode


class MergedSender:
    """The requests of one session, with absolute paths; errors have relative ones. `end` is called if an
    answer says that the session is over."""

    def __init__(
        self,
        client: KazooClient,
        handler: Handler,
        loop_queue: LoopQueue,
        chroot: Chroot,
        counts: RequestCounts,
        end: Callable[[], None],
    ) -> None:
        self._client = client
        self._handler = handler
        self._loop_queue = loop_queue
        self._chroot = chroot
        self._counts = counts
        self._end = end

    def read(self, paths: Sequence[str], answered: Answered) -> None:
        self._counts.count("get", len(paths))
        if len(paths) == 1:
            completion = self._client.get_async(paths[0])
        else:
            completion = self._handler.async_result()
            self._client._call(MultiRead(paths), completion)
        take = partial(self._take_reads, paths, answered)
        completion.rawlink(partial(self._loop_queue.put, take, counts=len(paths)))

    def write(self, operations: Sequence[Operation], carried: Carried) -> None:
        self._counts.count("multi", len(operations))
        transaction = self._client.transaction()
        for operation in operations:
            self._add(transaction, operation)
        take = partial(self._take_results, operations, carried)
        transaction.commit_async().rawlink(partial(self._loop_queue.put, take))

    def _take_reads(self, paths: Sequence[str], answered: Answered, answer: Completion) -> None:
        if (failed := answer.exception) is not None:
            self._failed(failed)
            answered([translate(failed, self._chroot.relative(path)) for path in paths])
        else:
            found = [answer.value] if len(paths) == 1 else answer.value
            answered(
                [_read(each, self._chroot.relative(path)) for each, path in zip(found, paths, strict=True)]
            )

    def _take_results(self, operations: Sequence[Operation], carried: Carried, answer: Completion) -> None:
        if (failed := answer.exception) is not None:
            self._failed(failed)
            carried(translate(failed, f"multi of {len(operations)}"))
        else:
            carried(self._results(operations, answer.value))

    def _failed(self, failed: BaseException) -> None:
        if isinstance(failed, ENDED):
            self._end()

    def _add(self, transaction: Any, operation: Operation) -> None:
        path = operation.path
        match operation:
            case Check(version=version):
                transaction.check(path, version)
            case Create(data=data, ephemeral=ephemeral, sequential=sequential):
                transaction.create(path, data, ephemeral=ephemeral, sequence=sequential)
            case SetData(data=data, version=version):
                transaction.set_data(path, data, version)
            case Delete(version=version):
                transaction.delete(path, version)
            case _:
                assert_never(operation)

    def _results(self, operations: Sequence[Operation], answers: Sequence[Any]) -> Results | MultiFailed:
        for index, answer in enumerate(answers):
            if isinstance(answer, Exception) and not isinstance(answer, NOT_THE_CULPRIT):
                return MultiFailed(index, translate(answer, self._chroot.relative(operations[index].path)))
        return [_outcome(op, answer) for op, answer in zip(operations, answers, strict=True)]


def _outcome(operation: Operation, answer: Any) -> str | int | None:
    match operation:
        case Create():
            return str(answer)
        case SetData():
            return int(answer.version)
        case _:
            return None


def znode(stat: Any, data: bytes) -> Znode:
    """kazoo's stat of a znode, and its data, as the port has them."""
    return Znode(
        data, stat.version, stat.czxid, stat.mzxid, stat.ephemeralOwner, stat.numChildren, stat.pzxid
    )


def _read(answer: Any, path: str) -> Znode | CoordinationError:
    if isinstance(answer, BaseException):
        return translate(answer, path)
    data, stat = answer
    return znode(stat, data or b"")
