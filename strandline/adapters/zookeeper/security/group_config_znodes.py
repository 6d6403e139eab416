"""Configs of groups in ZooKeeper: their paths, and their JSON (docs/design.md, "ZooKeeper").

`/config/groups/billing` has what the group has of its own. The name is percent-encoded. Each write adds a
notice, as for ACLs. A group whose znode is unreadable goes by the brokers' settings until it is mended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from strandline.adapters.zookeeper.security.acl_znodes import encoded
from strandline.adapters.zookeeper.security.folder_reader import Folder
from strandline.adapters.zookeeper.znodes import UnreadableZnode, dump, reading
from strandline.vocabulary.configs.groups import GroupConfig, check_stored
from strandline.vocabulary.parsing.typed_json import text

GROUP_CONFIGS: Final = "/config/groups"


def group_child(group: str) -> str:
    """The name of the group's znode."""
    return encoded(group, safe="")


def load_group(child: str) -> str:
    """The group that a child of the folder is about. Raises UnreadableZnode."""
    try:
        group = unquote(child, errors="strict")
    except UnicodeDecodeError:
        group = ""
    if not group or group_child(group) != child:
        raise UnreadableZnode(f"{GROUP_CONFIGS}/{child} is no path of a group's configs")
    return group


def dump_config(config: GroupConfig) -> bytes:
    return dump(dict(sorted(config.items())))


def load_config(group: str, data: bytes) -> GroupConfig:
    """Raises UnreadableZnode."""
    with reading(f"{GROUP_CONFIGS}/{group_child(group)}", data) as raw:
        return check_stored({name: text(value) for name, value in raw.items()})


def dump_group_change(groups: Sequence[str]) -> bytes:
    """The notice that these groups have other configs now."""
    return dump({"groups": [group_child(group) for group in groups]})


def load_group_change(path: str, data: bytes) -> tuple[str, ...]:
    """The groups whose configs have changed; none if the notice is about something else. Raises
    UnreadableZnode."""
    with reading(path, data) as raw:
        return tuple(load_group(text(child)) for child in raw.get("groups", ()))


GROUP_CONFIG_FOLDER: Final[Folder[str, GroupConfig]] = Folder(
    GROUP_CONFIGS,
    group_child,
    load_group,
    dump_config,
    load_config,
    dict,
    dump_group_change,
    load_group_change,
)
