"""Saves the host's network settings before an engine starts, and restores them: iptables, bridges, switches.

dockerd leaves its changes behind when it stops: its chains, a FORWARD policy of DROP, its bridge, and
forwarding. Call `remember` before an engine starts, and `restore` after it has ended. No other program should
change these settings in between.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from strandline_lab.chaos.containers.commands import run
from strandline_lab.chaos.world import WorldFailed

FAMILIES: Final = ("iptables", "ip6tables")
SWITCHES: Final = (
    "net/ipv4/ip_forward",
    "net/ipv6/conf/all/forwarding",
    "net/bridge/bridge-nf-call-iptables",
    "net/bridge/bridge-nf-call-ip6tables",
)
_SYSCTL: Final = Path("/proc/sys")
_LINKS: Final = Path("/sys/class/net")


@dataclass(frozen=True)
class HostNetwork:
    rules: Mapping[str, Mapping[str, str]]
    """The rules by family and table, as iptables-save prints them."""
    links: Collection[str]
    switches: Mapping[str, str]


async def remember() -> HostNetwork:
    """Reads the present settings."""
    return HostNetwork(
        {family: tables(await _saved(family)) for family in FAMILIES},
        sorted(link.name for link in _LINKS.iterdir()),
        {name: (_SYSCTL / name).read_text() for name in SWITCHES if (_SYSCTL / name).exists()},
    )


def dump(network: HostNetwork) -> str:
    return json.dumps(asdict(network))


def load(text: str) -> HostNetwork:
    return HostNetwork(**json.loads(text))


async def restore(before: HostNetwork) -> None:
    """Restores them: removes bridges that were added since, and sets rules and switches back."""
    for link in _LINKS.iterdir():
        if link.name not in before.links and (link / "bridge").exists():
            await run("ip", "link", "delete", link.name)
    for family in FAMILIES:
        wanted = before.rules[family]
        for table, now in tables(await _saved(family)).items():
            text = wanted.get(table) or emptied(now)
            if text != now:
                await run(f"{family}-restore", given=text.encode())
    for name, value in before.switches.items():
        if (_SYSCTL / name).read_text() != value:
            (_SYSCTL / name).write_text(value)


async def _saved(family: str) -> str:
    try:
        return await run(f"{family}-save")
    except WorldFailed:
        return ""  # a kernel without that family has no rules of it


def tables(saved: str) -> dict[str, str]:
    """The output of iptables-save by table: `*filter` to `COMMIT`, without comments and counters."""
    found: dict[str, str] = {}
    lines: list[str] = []
    for line in saved.splitlines():
        if line.startswith("#"):
            continue
        if line.startswith(":"):
            line = line.partition(" [")[0]  # a chain without its packet counter
        lines.append(line)
        if line == "COMMIT":
            found[lines[0].removeprefix("*")] = "\n".join(lines) + "\n"
            lines = []
    return found


def emptied(table: str) -> str:
    """This table with only its built-in chains, which let everything pass: its state before any use."""
    heading, *lines = table.splitlines()
    chains = [line.split()[0] for line in lines if line.startswith(":") and not line.endswith(" -")]
    return "\n".join([heading, *(f"{chain} ACCEPT" for chain in chains), "COMMIT"]) + "\n"
