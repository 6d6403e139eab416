"""Reads `deploy/kubernetes` as `kubectl kustomize` does, for what is in there: resources and patches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

Resource = dict[str, Any]

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = ROOT / "deploy" / "kubernetes"
KEYS: Final = ("mountPath", "name")
"""The field that says which elements of two lists are the same one: the first of these that they have."""


@cache
def rendered(name: str) -> Sequence[Resource]:
    """The resources of a folder with a kustomization, its patches applied. They are shared."""
    folder = FOLDER / name
    (kustomization,) = documents(folder / "kustomization.yaml")
    found: list[Resource] = []
    for each in kustomization["resources"]:
        path = folder / each
        found += rendered(str(path.resolve().relative_to(FOLDER))) if path.is_dir() else documents(path)
    for patch in kustomization.get("patches", ()):
        for change in documents(folder / patch["path"]):
            (place,) = [i for i, each in enumerate(found) if identity(each) == identity(change)]
            found[place] = merged(found[place], change)
    for each in found:
        if each["kind"] != "Namespace":
            each["metadata"]["namespace"] = kustomization["namespace"]
    return found


def documents(path: Path) -> list[Resource]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def identity(resource: Resource) -> tuple[str, str]:
    """Its kind and its name."""
    return resource["kind"], resource["metadata"]["name"]


def merged(base: Any, change: Any) -> Any:
    """A strategic merge: objects by field, lists of objects by `KEYS`; anything else is replaced."""
    if isinstance(base, dict) and isinstance(change, dict):
        return base | {name: merged(base.get(name), value) for name, value in change.items()}
    if isinstance(base, list) and isinstance(change, list) and all(isinstance(each, dict) for each in change):
        by_key = {_key(each): each for each in base}
        for each in change:
            by_key[_key(each)] = merged(by_key.get(_key(each)), each)
        return list(by_key.values())
    return change


def _key(element: Mapping[str, Any]) -> Any:
    return next(element[key] for key in KEYS if key in element)


class Workload:
    """A StatefulSet among the resources of a kustomization."""

    def __init__(self, resources: Sequence[Resource], name: str) -> None:
        found = {identity(each): each for each in resources}
        self.resource = found["StatefulSet", name]
        self.name = name
        self.spec = self.resource["spec"]
        self.pod = self.spec["template"]["spec"]
        (self.container,) = self.pod["containers"]
        self._config_maps = {
            map_name: each["data"] for (kind, map_name), each in found.items() if kind == "ConfigMap"
        }

    @property
    def ordinals(self) -> range:
        start = self.spec["ordinals"]["start"]
        return range(start, start + self.spec["replicas"])

    @property
    def names(self) -> list[str]:
        """The names of its pods, which are their host names."""
        return [f"{self.name}-{ordinal}" for ordinal in self.ordinals]

    @property
    def ports(self) -> dict[str, int]:
        return {each["name"]: each["containerPort"] for each in self.container["ports"]}

    @property
    def mounts(self) -> dict[str, dict[str, Any]]:
        return {each["mountPath"]: each for each in self.container["volumeMounts"]}

    def environment(self, ordinal: int, labels: Mapping[str, str] | None = None) -> dict[str, str]:
        """What the container of one pod gets, without what the image sets."""
        name = f"{self.name}-{ordinal}"
        given: dict[str, str] = {}
        for source in self.container.get("envFrom", ()):
            given |= self._config_maps[source["configMapRef"]["name"]]
        fields = {
            "metadata.name": name,
            "metadata.namespace": self.resource["metadata"]["namespace"],
            "metadata.labels['apps.kubernetes.io/pod-index']": str(ordinal),
            **(labels or {}),
        }
        for variable in self.container["env"]:
            value = variable.get("value")
            if value is None:
                value = fields.get(variable["valueFrom"]["fieldRef"]["fieldPath"], "")
            given[variable["name"]] = expanded(value, given)
        return given


def expanded(value: str, variables: Mapping[str, str]) -> str:
    """With `$(NAME)` replaced by variables that were set before it, as the kubelet does."""
    for name, text in variables.items():
        value = value.replace(f"$({name})", text)
    return value


def containers(resources: Sequence[Resource]) -> Iterator[tuple[Resource, Resource]]:
    """Each pod's specification with its container."""
    for each in resources:
        if each["kind"] == "StatefulSet":
            pod = each["spec"]["template"]["spec"]
            for container in pod["containers"]:
                yield pod, container
