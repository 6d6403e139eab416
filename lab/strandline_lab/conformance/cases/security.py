"""ACLs, users with passwords, and quotas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from strandline_lab.conformance.case import Call, Case

UNKNOWN, ANY, TOPIC, GROUP, CLUSTER, TRANSACTION, TOKEN, USER = range(8)
"""Types of resources."""
MATCH, LITERAL, PREFIXED = 2, 3, 4
ALL, READ, WRITE, CREATE = 2, 3, 4, 5
DENY, ALLOW = 2, 3

# --- ACLs -------------------------------------------------------------------------------------


def _acl(name: str, **more: Any) -> dict[str, Any]:
    return {
        "ResourceType": TOPIC,
        "ResourceName": name,
        "ResourcePatternType": LITERAL,
        "Principal": "User:anna",
        "Host": "*",
        "Operation": READ,
        "PermissionType": ALLOW,
        **more,
    }


def _filter(name: str | None, **more: Any) -> dict[str, Any]:
    return {
        "ResourceTypeFilter": TOPIC,
        "ResourceNameFilter": name,
        "PatternTypeFilter": LITERAL,
        "PrincipalFilter": None,
        "HostFilter": None,
        "Operation": 1,
        "PermissionType": 1,
        **more,
    }


def _created(*acls: dict[str, Any]) -> Call:
    return Call("CreateAcls", {"Creations": list(acls)}, version=2)


def _seen(topic: str, count: int) -> Call:
    """Waits until a broker shows the ACLs of a topic."""
    return Call("DescribeAcls", _filter(topic), version=2, until=f"Resources.0.Acls.{count - 1}.Principal")


def _create(name: str, *acls: dict[str, Any]) -> Case:
    return Case(name, Call("CreateAcls", {"Creations": list(acls)}))


_CREATE: Final = (
    _create("one ACL", _acl("security.a.{v}")),
    _create("two ACLs", _acl("security.b.{v}"), _acl("security.b.{v}", Operation=WRITE)),
    _create("an ACL twice", _acl("security.c.{v}"), _acl("security.c.{v}")),
    _create("none"),
    _create("a prefix", _acl("security.d.{v}", ResourcePatternType=PREFIXED)),
    _create("a deny", _acl("security.e.{v}", PermissionType=DENY)),
    _create("an address", _acl("security.f.{v}", Host="127.0.0.1")),
    _create("a host's name", _acl("security.f.{v}", Host="localhost")),
    _create("every user", _acl("security.g.{v}", Principal="User:*")),
    _create("every topic", _acl("*")),
    _create("the cluster", _acl("kafka-cluster", ResourceType=CLUSTER, Operation=CREATE)),
    _create("another cluster", _acl("other", ResourceType=CLUSTER, Operation=CREATE)),
    _create("a group", _acl("security.h.{v}", ResourceType=GROUP)),
    _create("a transactional id", _acl("security.i.{v}", ResourceType=TRANSACTION, Operation=WRITE)),
    _create("a delegation token", _acl("security.t.{v}", ResourceType=TOKEN, Operation=8)),
    _create("a user", _acl("security.u.{v}", ResourceType=USER, Operation=8)),
    _create("any type", _acl("security.j", ResourceType=ANY)),
    _create("an unknown type", _acl("security.j", ResourceType=UNKNOWN)),
    _create("an unheard-of type", _acl("security.j", ResourceType=77)),
    _create("any pattern", _acl("security.j", ResourcePatternType=1)),
    _create("a pattern that matches", _acl("security.j", ResourcePatternType=MATCH)),
    _create("any operation", _acl("security.j", Operation=1)),
    _create("an unknown operation", _acl("security.j", Operation=0)),
    _create("an operation that topics have not", _acl("security.j", Operation=12)),
    _create("any permission", _acl("security.j", PermissionType=1)),
    _create("an empty name", _acl("")),
    _create("an empty host", _acl("security.j", Host="")),
    _create("a principal without a type", _acl("security.j", Principal="anna")),
    _create("an empty principal", _acl("security.j", Principal="")),
    _create("a principal of another type", _acl("security.k.{v}", Principal="Group:staff")),
    _create("a right and a wrong one", _acl("security.l.{v}"), _acl("", Operation=WRITE)),
)


def _describe(name: str, **fields: Any) -> Case:
    topic = f"security.described.{name.replace(' ', '-')}.{{v}}"
    before = [_created(_acl(topic), _acl(topic, Operation=WRITE, Host="127.0.0.1")), _seen(topic, 2)]
    return Case(name, Call("DescribeAcls", _filter(topic, **fields)), before=before)


_DESCRIBE: Final = (
    _describe("a topic"),
    _describe("a pattern that matches", PatternTypeFilter=MATCH, PrincipalFilter="User:anna"),
    _describe("any pattern", PatternTypeFilter=1),
    _describe("prefixes", PatternTypeFilter=PREFIXED),
    _describe("an unknown pattern", PatternTypeFilter=0),
    _describe("one operation", Operation=READ),
    _describe("an unknown operation", Operation=0),
    _describe("one host", HostFilter="127.0.0.1"),
    _describe("a principal", PrincipalFilter="User:anna"),
    _describe("another principal", PrincipalFilter="User:bert"),
    _describe("a principal without a type", PrincipalFilter="anna"),
    _describe("denials", PermissionType=DENY),
    _describe("an unknown permission", PermissionType=0),
    _describe("an unknown type", ResourceTypeFilter=0),
    _describe("any type", ResourceTypeFilter=ANY),
    _describe("groups", ResourceTypeFilter=GROUP),
    _describe("an empty name", ResourceNameFilter=""),
    _describe("an unknown name", ResourceNameFilter="security.unknown"),
)


def _delete(name: str, *filters: dict[str, Any]) -> Case:
    topic = f"security.deleted.{name.replace(' ', '-')}.{{v}}"
    before = [_created(_acl(topic), _acl(topic, Operation=WRITE)), _seen(topic, 2)]
    these = [_filter(topic, **each) for each in filters]
    return Case(name, Call("DeleteAcls", {"Filters": these}), before=before)


_DELETE: Final = (
    _delete("a topic", {}),
    _delete("one operation", {"Operation": READ}),
    _delete("two filters", {"Operation": READ}, {"Operation": WRITE}),
    _delete("a filter twice", {}, {}),
    _delete("no filters"),
    _delete("an unknown name", {"ResourceNameFilter": "security.unknown"}),
    _delete("an unknown operation", {"Operation": 0}),
    _delete("an unknown type", {"ResourceTypeFilter": 0}),
    _delete("an unknown pattern", {"PatternTypeFilter": 0}),
    _delete("a right and a wrong filter", {}, {"Operation": 0}),
)

# --- users ------------------------------------------------------------------------------------

SHA_256, SHA_512 = 1, 2
_SALT: Final = bytes(range(16))


def _upsert(user: str, **more: Any) -> dict[str, Any]:
    return {
        "Name": user,
        "Mechanism": SHA_256,
        "Iterations": 8_192,
        "Salt": _SALT,
        "SaltedPassword": bytes(32),
        **more,
    }


def _users(
    name: str, upserted: Sequence[dict[str, Any]] = (), deleted: Sequence[tuple[str, int]] = ()
) -> Case:
    deletions = [{"Name": user, "Mechanism": mechanism} for user, mechanism in deleted]
    body = {"Deletions": deletions, "Upsertions": list(upserted)}
    return Case(name, Call("AlterUserScramCredentials", body))


_ALTER_USERS: Final = (
    _users("a user", [_upsert("security.anna")]),
    _users(
        "a user's other mechanism", [_upsert("security.anna", Mechanism=SHA_512, SaltedPassword=bytes(64))]
    ),
    _users("two users", [_upsert("security.bert"), _upsert("security.carl")]),
    _users("a user twice", [_upsert("security.dora"), _upsert("security.dora")]),
    _users("two mechanisms", [_upsert("security.emil"), _upsert("security.emil", Mechanism=SHA_512)]),
    _users("none"),
    _users("no name", [_upsert("")]),
    _users("few iterations", [_upsert("security.fritz", Iterations=100)]),
    _users("many iterations", [_upsert("security.fritz", Iterations=16_385)]),
    _users("no salt", [_upsert("security.fritz", Salt=b"")]),
    _users("a short salt", [_upsert("security.fritz", Salt=b"salt")]),
    _users("no password", [_upsert("security.fritz", SaltedPassword=b"")]),
    _users("a short password", [_upsert("security.fritz", SaltedPassword=b"short")]),
    _users("an unknown mechanism", [_upsert("security.fritz", Mechanism=0)]),
    _users("an unheard-of mechanism", [_upsert("security.fritz", Mechanism=9)]),
    _users("deletes a user", (), [("security.carl", SHA_256)]),
    _users("deletes what is not there", (), [("security.carl", SHA_512)]),
    _users("deletes an unknown user", (), [("security.unknown", SHA_256)]),
    _users("deletes a user twice", (), [("security.bert", SHA_256), ("security.bert", SHA_256)]),
    _users("deletes two mechanisms", (), [("security.anna", SHA_256), ("security.anna", SHA_512)]),
    _users("deletes and sets a user", [_upsert("security.gerda")], [("security.gerda", SHA_256)]),
    _users("deletes an unknown mechanism", (), [("security.anna", 0)]),
    _users("deletes no name", (), [("", SHA_256)]),
)


def _user(name: str, *users: str) -> Case:
    change = {"Deletions": [], "Upsertions": [_upsert("security.zoe")]}
    zoe = {"Users": [{"Name": "security.zoe"}]}
    before = [
        Call("AlterUserScramCredentials", change, version=0),
        Call("DescribeUserScramCredentials", zoe, version=0, until="Results.0.CredentialInfos"),
    ]
    asked = [{"Name": each} for each in users]
    only = "" if users else "security.zoe"
    return Case(name, Call("DescribeUserScramCredentials", {"Users": asked}), before=before, only=only)


_DESCRIBE_USERS: Final = (
    _user("a user", "security.zoe"),
    _user("an unknown user", "security.unknown"),
    _user("a user twice", "security.zoe", "security.zoe"),
    _user("a user and an unknown one", "security.zoe", "security.unknown"),
    _user("no name", ""),
    _user("no users"),
    Case("all users", Call("DescribeUserScramCredentials", {"Users": None}), only="security.zoe"),
)

# --- quotas -----------------------------------------------------------------------------------

EXACT, DEFAULT, SPECIFIED = range(3)
Entity = Sequence[tuple[str, str | None]]
_RATE: Final = "producer_byte_rate"
_CONNECTIONS: Final = "connection_creation_rate"


def _quota(
    entity: Entity, key: str = _RATE, value: float = 1_000_000.0, *, remove: bool = False
) -> dict[str, Any]:
    return {
        "Entity": [{"EntityType": kind, "EntityName": name} for kind, name in entity],
        "Ops": [{"Key": key, "Value": value, "Remove": remove}],
    }


def _quotas(name: str, *entries: dict[str, Any], **more: Any) -> Case:
    return Case(name, Call("AlterClientQuotas", {"Entries": list(entries), "ValidateOnly": False, **more}))


_ANNA: Final = (("user", "security.anna"),)
_ADDRESS: Final = (("ip", "192.0.2.1"),)
_PAIR: Final = (("user", "security.anna"), ("client-id", "c"))

_ALTER_QUOTAS: Final = (
    _quotas("a user", _quota(_ANNA)),
    _quotas("a user and a client", _quota(_PAIR)),
    _quotas("a client", _quota((("client-id", "c"),))),
    _quotas("every user", _quota((("user", None),))),
    _quotas("an address", _quota(_ADDRESS, _CONNECTIONS, 10.0)),
    _quotas("an address of IPv6", _quota((("ip", "2001:db8::7"),), _CONNECTIONS, 10.0)),
    _quotas("every address", _quota((("ip", None),), _CONNECTIONS, 1_000.0)),
    _quotas("an address, a rate of 0", _quota(_ADDRESS, _CONNECTIONS, 0.0)),
    _quotas("an address, a negative rate", _quota(_ADDRESS, _CONNECTIONS, -1.0)),
    _quotas("an address, a part of a connection", _quota(_ADDRESS, _CONNECTIONS, 0.5)),
    _quotas("an address, one and a half connections", _quota(_ADDRESS, _CONNECTIONS, 1.5)),
    _quotas("an address, the largest rate", _quota(_ADDRESS, _CONNECTIONS, 2147483647.0)),
    _quotas("an address, a rate too large", _quota(_ADDRESS, _CONNECTIONS, 2147483648.0)),
    _quotas("an address, removed", _quota(_ADDRESS, _CONNECTIONS, remove=True)),
    _quotas("an address with a rate of bytes", _quota(_ADDRESS)),
    _quotas("an address, a rate of bytes removed", _quota(_ADDRESS, remove=True)),
    _quotas("a host that there is not", _quota((("ip", "no address"),), _CONNECTIONS, 10.0)),
    _quotas("a host that there is not, removed", _quota((("ip", "no.invalid"),), _CONNECTIONS, remove=True)),
    _quotas("a host", _quota((("ip", "localhost"),), _CONNECTIONS, 1_000.0), ValidateOnly=True),
    _quotas("an empty address", _quota((("ip", ""),), _CONNECTIONS, 10.0)),
    _quotas("a client and an address", _quota((("client-id", "c"), *_ADDRESS), _CONNECTIONS, 10.0)),
    _quotas("a user with a rate of connections", _quota(_ANNA, _CONNECTIONS, 10.0)),
    _quotas("the consumer's rate", _quota(_ANNA, "consumer_byte_rate")),
    _quotas("a share of requests", _quota(_ANNA, "request_percentage", 50.0)),
    _quotas("a rate of changes", _quota(_ANNA, "controller_mutation_rate", 5.0)),
    _quotas("an unknown key", _quota(_ANNA, "unknown_rate")),
    _quotas("an empty key", _quota(_ANNA, "")),
    _quotas("a rate of 0", _quota(_ANNA, value=0.0)),
    _quotas("a negative rate", _quota(_ANNA, value=-1.0)),
    _quotas("a part of a byte", _quota(_ANNA, value=0.5)),
    _quotas("removed", _quota(_ANNA, remove=True)),
    _quotas("removed, not there", _quota((("user", "security.unknown"),), remove=True)),
    _quotas("no entries"),
    _quotas("no entity", _quota(())),
    _quotas("an unknown type", _quota((("planet", "earth"),))),
    _quotas("an empty type", _quota((("", "x"),))),
    _quotas("an empty user", _quota((("user", ""),))),
    _quotas("a type twice", _quota((*_ANNA, ("user", "security.bert")))),
    _quotas("a user and an address", _quota((*_ANNA, *_ADDRESS))),
    _quotas("an entity twice", _quota(_ANNA), _quota(_ANNA, value=5.0)),
    _quotas("no operations", {"Entity": [{"EntityType": "user", "EntityName": "security.anna"}], "Ops": []}),
    _quotas("only validated", _quota(_ANNA), ValidateOnly=True),
    _quotas("only validated, an unknown key", _quota(_ANNA, "unknown_rate"), ValidateOnly=True),
)


def _quota_of(name: str, *components: tuple[str, int, str | None], strict: bool = False) -> Case:
    set_ = _quota((("user", "security.quota"), ("client-id", "security.c")))
    change = {"Entries": [set_, _quota((("user", "security.quota"),))]}
    own = {"Components": [{"EntityType": "user", "MatchType": EXACT, "Match": "security.quota"}]}
    before = [
        Call("AlterClientQuotas", change, version=1),
        Call("DescribeClientQuotas", own, version=1, until="Entries.1.Values"),
    ]
    asked = [{"EntityType": kind, "MatchType": match, "Match": which} for kind, match, which in components]
    body = {"Components": asked, "Strict": strict}
    return Case(name, Call("DescribeClientQuotas", body), before=before)


def _address_of(name: str, *components: tuple[str, int, str | None], strict: bool = False) -> Case:
    case = _quota_of(name, *components, strict=strict)
    change = {"Entries": [_quota((("ip", _KEPT),), _CONNECTIONS, 10.0)]}
    own = {"Components": [{"EntityType": "ip", "MatchType": EXACT, "Match": _KEPT}]}
    before = [
        Call("AlterClientQuotas", change, version=1),
        Call("DescribeClientQuotas", own, version=1, until="Entries.0.Values"),
    ]
    return replace(case, before=[*case.before, *before])


_KEPT: Final = "192.0.2.7"
"""The address that has a quota throughout."""
_USER: Final = ("user", EXACT, "security.quota")

_DESCRIBE_QUOTAS: Final = (
    _quota_of("a user", _USER),
    _quota_of("a user, strictly", _USER, strict=True),
    _quota_of("a user and a client", _USER, ("client-id", EXACT, "security.c")),
    _quota_of("a user and any client", _USER, ("client-id", SPECIFIED, None)),
    _quota_of("an unknown user", ("user", EXACT, "security.unknown")),
    _quota_of("a user without a name", ("user", EXACT, None)),
    _quota_of("an empty user", ("user", EXACT, "")),
    _quota_of("an unknown type", ("planet", EXACT, "earth")),
    _quota_of("an empty type", ("", EXACT, "x")),
    _quota_of("an unknown match", ("user", 9, "security.quota")),
    _quota_of("a type twice", _USER, _USER),
    _address_of("addresses", ("ip", SPECIFIED, None)),
    _address_of("addresses, strictly", ("ip", SPECIFIED, None), strict=True),
    _address_of("an address", ("ip", EXACT, _KEPT)),
    _address_of("an unknown address", ("ip", EXACT, "192.0.2.9")),
    _address_of("an empty address", ("ip", EXACT, "")),
    _address_of("no address", ("ip", EXACT, "no address")),
    _address_of("every address", ("ip", DEFAULT, None)),
    _address_of("an address twice", ("ip", EXACT, _KEPT), ("ip", EXACT, _KEPT)),
    _address_of("an address and a user", ("ip", SPECIFIED, None), _USER),
    _address_of("a user and an address", _USER, ("ip", EXACT, _KEPT)),
)

CASES: Final = (
    *_CREATE,
    *_DESCRIBE,
    *_DELETE,
    *_ALTER_USERS,
    *_DESCRIBE_USERS,
    *_ALTER_QUOTAS,
    *_DESCRIBE_QUOTAS,
)
