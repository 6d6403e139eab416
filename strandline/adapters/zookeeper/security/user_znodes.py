"""Users in ZooKeeper: their paths, and the JSON of their credentials (docs/design.md, "ZooKeeper").

`/config/users/alice` has the salted keys of one user, by mechanism. Each write adds a notice, as for ACLs.
No error shows what such a znode holds. A user whose znode is unreadable cannot log in until it is mended.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote

from strandline.adapters.zookeeper.security.acl_znodes import encoded
from strandline.adapters.zookeeper.security.folder_reader import Folder
from strandline.adapters.zookeeper.znodes import UnreadableZnode, dump, reading
from strandline.errors import InvalidRequest
from strandline.security.login.credentials import Credential, Credentials
from strandline.security.login.mechanisms import check_user_name
from strandline.vocabulary.parsing.typed_json import integer, text

USERS: Final = "/config/users"


def user_child(name: str) -> str:
    """The name of the user's znode."""
    return encoded(name, safe="")


def user_path(name: str) -> str:
    return f"{USERS}/{user_child(name)}"


def load_user_name(child: str) -> str:
    """The name of the user that a child of the folder is about. Raises UnreadableZnode."""
    try:
        name = unquote(child, errors="strict")
        check_user_name(name)
        if user_path(name) == f"{USERS}/{child}":
            return name
    except (InvalidRequest, UnicodeDecodeError):
        pass
    raise UnreadableZnode(f"{USERS}/{child} is no user's path")


def dump_credentials(credentials: Credentials) -> bytes:
    return dump(
        {
            mechanism: {
                "salt": b64encode(credential.salt).decode(),
                "stored_key": b64encode(credential.stored_key).decode(),
                "server_key": b64encode(credential.server_key).decode(),
                "iterations": credential.iterations,
            }
            for mechanism, credential in sorted(credentials.items())
        }
    )


def load_credentials(name: str, data: bytes) -> Credentials:
    """Raises UnreadableZnode."""
    path = user_path(name)
    try:
        with reading(path, data) as raw:
            return {text(mechanism): _load(mechanism, fields) for mechanism, fields in raw.items()}
    except UnreadableZnode:
        raise UnreadableZnode(f"{path} does not hold a user's credentials") from None


def _load(mechanism: str, fields: Any) -> Credential:
    def keys(name: str) -> bytes:
        return b64decode(text(fields[name]), validate=True)

    return Credential(
        mechanism, keys("salt"), keys("stored_key"), keys("server_key"), integer(fields["iterations"])
    )


def dump_user_change(names: Sequence[str]) -> bytes:
    """The notice that these users have other credentials now."""
    return dump({"users": list(names)})


def load_user_change(path: str, data: bytes) -> tuple[str, ...]:
    """The users whose credentials have changed; none if the notice is about something else. Raises
    UnreadableZnode."""
    with reading(path, data) as raw:
        return tuple(text(each) for each in raw.get("users", ()))


USER_FOLDER: Final[Folder[str, Credentials]] = Folder(
    USERS,
    user_child,
    load_user_name,
    dump_credentials,
    load_credentials,
    dict,
    dump_user_change,
    load_user_change,
)
