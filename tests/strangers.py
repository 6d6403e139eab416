"""A client of ZooKeeper without the cluster's identity, and what it may do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, ZookeeperError

from strandline.adapters.zookeeper.session import ZooKeeperSession
from tests.tls_files import Files

ZOOKEEPERS_OWN = "/zookeeper"
NO_VERSION = 1_000_000


@contextmanager
def stranger(zookeeper: str, tls: Files | None = None) -> Iterator[KazooClient]:
    """Paths of the client are those of the ensemble: it could not begin in a chroot that it may not read."""
    encrypted = {} if tls is None else {
        "use_ssl": True, "ca": tls.cafile, "certfile": tls.certfile, "keyfile": tls.keyfile,
    }  # fmt: skip
    client = KazooClient(zookeeper.partition("/")[0], **encrypted)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def refused(call: Callable[[], object]) -> bool:
    """Whether ZooKeeper refuses the call for its caller, and for no other reason."""
    try:
        call()
    except NoAuthError:
        return True
    except ZookeeperError:
        return False
    return False


def open_to_strangers(zookeeper: str, paths: Iterable[str], tls: Files | None = None) -> list[str]:
    """The znodes, named below the chroot of `zookeeper`, that everyone may read or list, write, create or
    delete in, or give to others. `tls`: what a stranger shows to a ZooKeeper that speaks TLS."""
    _, slash, chroot = zookeeper.partition("/")
    with stranger(zookeeper, tls) as client:
        return [path for path in paths if _open(client, (slash + chroot + path).rstrip("/") or "/")]


def _open(client: KazooClient, path: str) -> bool:
    below = f"{path.rstrip('/')}/x"
    attempts = (
        partial(client.get, path),
        partial(client.get_children, path),
        partial(client.set, path, b"", version=NO_VERSION),
        partial(client.create, below),
        partial(client.delete, below),
        partial(client.get_acls, path),
    )
    return not all(refused(attempt) for attempt in attempts)


async def every_znode(session: ZooKeeperSession, path: str = "/") -> list[str]:
    """The paths of all znodes but ZooKeeper's own, as a session that may list them sees them."""
    if path == ZOOKEEPERS_OWN:
        return []
    below = [
        await every_znode(session, f"{path.rstrip('/')}/{name}") for name in await session.children(path)
    ]
    return [path, *(each for paths in below for each in paths)]
