"""Serves the coordinator over gRPC: unary calls to `handlers`, whose errors are in the answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import grpc

from strandline.adapters.rpc.refused_requests import RefusedRequests
from strandline.broker.groups import wire
from strandline.broker.groups.handlers import GroupHandlers
from strandline.errors import StrandlineError

Context = grpc.aio.ServicerContext[bytes, bytes]
Handler = Callable[[Any, str], Awaitable[Any]]
"""Maps a request and the caller's address to an answer. Raises StrandlineError."""


def host_of(peer: str) -> str:
    """The address within a gRPC peer: `ipv4:10.0.0.1:5000`, `ipv6:%5B::1%5D:5000`."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return peer
    return unquote(rest.rpartition(":")[0]).strip("[]")


def _served(
    rpc: wire.Rpc, handle: Handler, refused: RefusedRequests
) -> Callable[[bytes, Context], Awaitable[bytes]]:
    async def serve(data: bytes, context: Context) -> bytes:
        try:
            return rpc.encode(await handle(rpc.decode(data), host_of(context.peer())))
        except StrandlineError as error:
            refused.note(error, context.peer())
            return rpc.refuse(error)

    return serve


def add_group_service(server: grpc.aio.Server, handlers: GroupHandlers, refused: RefusedRequests) -> None:
    """Serve `strandline.v1.Groups`. Messages pass gRPC as bytes; `wire` parses them."""
    served: tuple[tuple[wire.Rpc, Handler], ...] = (
        (wire.FIND_COORDINATOR, handlers.find_coordinator),
        (wire.JOIN_GROUP, handlers.join),
        (wire.SYNC_GROUP, handlers.sync),
        (wire.HEARTBEAT, handlers.heartbeat),
        (wire.LEAVE_GROUP, handlers.leave),
        (wire.OFFSET_COMMIT, handlers.commit),
        (wire.OFFSET_FETCH, handlers.fetch_offsets),
        (wire.REPORT_OWNERSHIP, handlers.report),
        (wire.REPORT_TASKS, handlers.report_tasks),
        (wire.LIST_GROUPS, handlers.list_groups),
        (wire.DESCRIBE_GROUP, handlers.describe),
        (wire.DELETE_GROUP, handlers.delete),
    )
    methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        rpc.name: grpc.unary_unary_rpc_method_handler(_served(rpc, handle, refused)) for rpc, handle in served
    }
    generic = grpc.method_handlers_generic_handler("strandline.v1.Groups", methods)
    server.add_generic_rpc_handlers((generic,))
