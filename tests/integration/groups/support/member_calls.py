"""Calls that only members of a cluster may make: writes to internal topics, as a broker makes them."""

from __future__ import annotations

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.system_host import new_id
from strandline.adapters.zookeeper.connect import connect
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.local.cluster import LocalCluster


async def member_key(cluster: LocalCluster) -> MemberKey:
    """The key that the members of this cluster share."""
    key = MemberKey(new_id)
    session = await connect(ZooKeeperSettings(zookeeper=cluster.zookeeper))
    try:
        await key.read(session)
    finally:
        await session.close()
    return key


async def member_transport(cluster: LocalCluster) -> GrpcTransport:
    """A transport that shows the key. The caller closes it."""
    return GrpcTransport((await member_key(cluster)).shown)
