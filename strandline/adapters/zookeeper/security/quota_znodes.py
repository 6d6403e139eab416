"""Quotas in ZooKeeper: their paths, and the JSON of their limits (docs/design.md, "ZooKeeper").

`/config/quotas/user=alice,client-id=app` has the limits of one entity, `/config/quotas/ip=192.0.2.1` those
of another. A name is percent-encoded, and the default is written `<default>`, which no encoded name is. Each
write adds a notice, as for ACLs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

from strandline.adapters.zookeeper.security.folder_reader import Folder
from strandline.adapters.zookeeper.znodes import UnreadableZnode, dump, reading
from strandline.errors import InvalidRequest
from strandline.security.quotas.model import (
    DEFAULT,
    DEFAULT_SHOWN,
    Limits,
    Quota,
    QuotaEntity,
    check_limit,
    parse_quota,
)
from strandline.vocabulary.parsing.typed_json import text

QUOTAS: Final = "/config/quotas"

_USER: Final = "user"
_CLIENT_ID: Final = "client-id"
_IP: Final = "ip"


def entity_child(entity: QuotaEntity) -> str:
    """The name of the entity's znode."""
    parts = ((_USER, entity.user), (_CLIENT_ID, entity.client_id), (_IP, entity.ip))
    return ",".join(f"{kind}={_encoded(name)}" for kind, name in parts if name is not None)


def _encoded(name: str) -> str:
    return DEFAULT_SHOWN if name == DEFAULT else quote(name, safe="")


def load_entity(child: str) -> QuotaEntity:
    """The entity that a child of the folder is about. Raises UnreadableZnode."""
    parts = dict(part.partition("=")[::2] for part in child.split(","))
    names = {kind: _decoded(name) for kind, name in parts.items()}
    try:
        entity = QuotaEntity(names.get(_USER), names.get(_CLIENT_ID), names.get(_IP))
    except InvalidRequest as error:
        raise UnreadableZnode(f"{QUOTAS}/{child} is no path of quotas: {error.message}") from None
    if entity_child(entity) != child:
        raise UnreadableZnode(f"{QUOTAS}/{child} is no path of quotas: it is written {entity_child(entity)}")
    return entity


def _decoded(name: str) -> str:
    return DEFAULT if name == DEFAULT_SHOWN else unquote(name)


def dump_limits(limits: Limits) -> bytes:
    return dump(
        {str(quota): int(limit) if limit == int(limit) else limit for quota, limit in sorted(limits.items())}
    )


def load_limits(entity: QuotaEntity, data: bytes) -> dict[Quota, float]:
    """Raises UnreadableZnode."""
    with reading(f"{QUOTAS}/{entity_child(entity)}", data) as raw:
        return dict(_load(entity, text(name), limit) for name, limit in raw.items())


def _load(entity: QuotaEntity, name: str, limit: Any) -> tuple[Quota, float]:
    if type(limit) not in (int, float):
        raise ValueError(f"{name} is not a number")
    quota = parse_quota(name)
    entity.check_has(quota)
    check_limit(quota, limit)
    return quota, float(limit)


def dump_quota_change(entities: Sequence[QuotaEntity]) -> bytes:
    """The notice that these entities have other limits now."""
    return dump({"quotas": [entity_child(entity) for entity in entities]})


def load_quota_change(path: str, data: bytes) -> tuple[QuotaEntity, ...]:
    """The entities whose limits have changed; none if the notice is about something else. Raises
    UnreadableZnode."""
    with reading(path, data) as raw:
        return tuple(load_entity(text(child)) for child in raw.get("quotas", ()))


QUOTA_FOLDER: Final[Folder[QuotaEntity, Limits]] = Folder(
    QUOTAS, entity_child, load_entity, dump_limits, load_limits, dict, dump_quota_change, load_quota_change
)
