"""The calls to Placement, with its answers as values and its refusals as errors.

Every call names its microversion: as Nova's report client, none later than the oldest Placement that can be of use (1.26, Rocky), save
for giving a provider another parent (1.37).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from keystoneauth1.exceptions import ClientException

from cantle.errors import CantleError, Conflict, NotFound, Unavailable
from cantle.model.provider import Inventory, Node, Provider
from cantle.model.request import Request, RequestGroup

#: ``reserved`` may equal ``total`` from here on, and refusals carry codes.
MICROVERSION = "1.26"
#: The first in which a provider may get another parent.
REPARENT = "1.37"
#: The first whose candidates come from nested providers, and in which a host, and one of several traits, can be asked for.
CANDIDATES, IN_TREE, ANY_TRAIT = "1.29", "1.31", "1.39"

#: Answers that say nothing about what was asked: Placement, its database or the way there is in trouble.
_AWAY = frozenset({401, 403, 408, 413, 429, 502, 503, 504})

_FIELDS = ("total", "reserved", "max_unit", "min_unit", "step_size", "allocation_ratio")


class GenerationConflict(Conflict):
    """The provider was changed since it was read (``placement-conflict``): read it again."""


class InUse(Conflict):
    """Somebody has an allocation of what would go away (``placement-in-use``)."""


class NameTaken(Conflict):
    """Another provider has the name, or this uuid exists already (``provider-name-taken``)."""


class UnknownName(Conflict):
    """Placement does not know a trait or resource class that was named (``placement-refused``)."""


class PlacementClient:
    """Placement over one adapter, whose session keeps its token and its connections. ``requests`` counts what was asked.

    All methods raise `Unavailable` with ``placement-away`` when Placement or the way there is in trouble (whether the call had an effect is
    then not known), and `CantleError` with ``placement-refused`` for an answer that is none of those listed.

    :param adapter: a ``keystoneauth1.adapter.Adapter`` for the service ``placement``.
    """

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter
        self.requests = 0

    def find(self, name: str) -> Node | None:
        """The provider of exactly that name."""
        found = self._get(f"/resource_providers?name={quote(name, safe='')}")["resource_providers"]
        return _node(found[0]) if found else None

    def node(self, uuid: str) -> Node | None:
        """One provider's place; None if there is no such provider."""
        try:
            return _node(self._get(f"/resource_providers/{uuid}"))
        except NotFound:
            return None

    def tree(self, uuid: str) -> dict[str, Node]:
        """Every provider of the tree that has this one, by uuid; empty if there is no such provider."""
        found = self._get(f"/resource_providers?in_tree={uuid}")["resource_providers"]
        return {one["uuid"]: _node(one) for one in found}

    def provider(self, node: Node) -> Provider:
        """What one provider has: two requests.

        :raises NotFound: ``provider-gone``.
        """
        inventories = self._get(f"/resource_providers/{node.uuid}/inventories")
        traits = self._get(f"/resource_providers/{node.uuid}/traits")
        return Provider(
            node.uuid,
            node.name,
            node.parent,
            # The lower one of the two: a change in between is found out by the next write.
            min(inventories["resource_provider_generation"], traits["resource_provider_generation"]),
            {name: _inventory(one) for name, one in inventories["inventories"].items()},
            frozenset(traits["traits"]),
        )

    def inventories(self, uuid: str) -> dict[str, Inventory]:
        """How much a provider has of each class.

        :raises NotFound: ``provider-gone``.
        """
        found = self._get(f"/resource_providers/{uuid}/inventories")["inventories"]
        return {name: _inventory(one) for name, one in found.items()}

    def usages(self, uuid: str) -> tuple[int, dict[str, int]]:
        """A provider's generation, and how much of each class is allocated of it.

        :raises NotFound: ``provider-gone``.
        """
        found = self._get(f"/resource_providers/{uuid}/usages")
        return found["resource_provider_generation"], dict(found["usages"])

    def allocations(self, uuid: str) -> dict[str, dict[str, int]]:
        """By consumer (an instance, as a rule), how much it has of each class of a provider.

        :raises NotFound: ``provider-gone``.
        """
        found = self._get(f"/resource_providers/{uuid}/allocations")["allocations"]
        return {consumer: dict(one["resources"]) for consumer, one in found.items()}

    def having(self, *, trait: str | None = None, amounts: Iterable[tuple[str, int]] = ()) -> set[str]:
        """Every provider of the whole cloud that has a trait, or can give these amounts now, or every one there is. The trait must be
        known; nothing can give an amount of a class that is not."""
        query = [f"required={trait}"] if trait else []
        resources = ",".join(f"{name}:{amount}" for name, amount in amounts)
        query += [f"resources={resources}"] if resources else []
        try:
            found = self._get("/resource_providers" + ("?" + "&".join(query) if query else ""))
        except UnknownName:
            if not resources:
                raise
            return set()
        return {one["uuid"] for one in found["resource_providers"]}

    def candidates(self, asked: Request, limit: int, root: str | None = None) -> list[set[str]]:
        """What Nova's scheduler would be offered for the groups of a request: by candidate, the providers it takes from.

        :param root: of this host's tree alone.
        """
        parts = [part for number, group in enumerate(asked.groups) for part in _group(str(number + 1), group, root)]
        policy = "isolate" if asked.isolate else "none"
        path = "/allocation_candidates?" + "&".join([*parts, f"group_policy={policy}", f"limit={limit}"])
        any_trait = any(group.any_of for group in asked.groups)
        version = ANY_TRAIT if any_trait else CANDIDATES if root is None else IN_TREE
        try:
            found = self._call("GET", path, version=version)
        except UnknownName:
            return []  # a trait or class that nobody has
        return [set(one["allocations"]) for one in found["allocation_requests"]]

    def create(self, uuid: str, name: str, parent: str) -> Provider:
        """A new provider with nothing in it.

        :raises NameTaken: ``provider-name-taken``.
        """
        body = {"uuid": uuid, "name": name, "parent_provider_uuid": parent}
        made = self._call("POST", "/resource_providers", body)
        return Provider(uuid, name, parent, made["generation"])

    def move(self, uuid: str, name: str, parent: str) -> int:
        """Give a provider this name and parent; its generation afterwards.

        :raises NotFound: ``provider-gone``.
        :raises NameTaken: ``provider-name-taken``.
        """
        body = {"name": name, "parent_provider_uuid": parent}
        generation: int = self._call("PUT", f"/resource_providers/{uuid}", body, REPARENT)["generation"]
        return generation

    def delete(self, uuid: str) -> None:
        """Delete a provider with what it has. One that is gone already is no failure.

        :raises InUse: ``placement-in-use``.
        """
        try:
            self._call("DELETE", f"/resource_providers/{uuid}")
        except NotFound:
            return

    def set_inventories(self, uuid: str, generation: int, inventories: Mapping[str, Inventory]) -> int:
        """Replace the inventories of a provider; its generation afterwards.

        :raises GenerationConflict: ``placement-conflict``.
        :raises InUse: ``placement-in-use``.
        :raises NotFound: ``provider-gone``.
        :raises UnknownName: ``placement-refused``.
        """
        body = {
            "resource_provider_generation": generation,
            "inventories": {
                name: {field: getattr(one, field) for field in _FIELDS} for name, one in inventories.items()
            },
        }
        return self._set(f"/resource_providers/{uuid}/inventories", body)

    def set_traits(self, uuid: str, generation: int, traits: Iterable[str]) -> int:
        """Replace the traits of a provider; its generation afterwards.

        :raises GenerationConflict: ``placement-conflict``.
        :raises NotFound: ``provider-gone``.
        :raises UnknownName: ``placement-refused``.
        """
        body = {"resource_provider_generation": generation, "traits": sorted(traits)}
        return self._set(f"/resource_providers/{uuid}/traits", body)

    def known_traits(self, names: Iterable[str]) -> set[str]:
        """Which of these names Placement knows."""
        return set(self._get(f"/traits?name=in:{','.join(sorted(names))}")["traits"])

    def make_trait(self, name: str) -> None:
        """Make a ``CUSTOM_`` trait known; one that is known already is no failure."""
        self._call("PUT", f"/traits/{name}")

    def make_class(self, name: str) -> None:
        """Make a ``CUSTOM_`` resource class known; one that is known already is no failure."""
        self._call("PUT", f"/resource_classes/{name}")

    def _set(self, path: str, body: Mapping[str, object]) -> int:
        generation: int = self._call("PUT", path, body)["resource_provider_generation"]
        return generation

    def _get(self, path: str) -> Any:
        return self._call("GET", path)

    def _call(self, method: str, path: str, body: object = None, version: str = MICROVERSION) -> Any:
        self.requests += 1
        try:
            answer = self._adapter.request(path, method, json=body, microversion=version, raise_exc=False)
        except ClientException as error:
            raise Unavailable("placement-away", f"Placement cannot be reached: {error}.") from error
        if answer.status_code >= 300:
            raise _refusal(answer, f"{method} {path}")
        try:
            return answer.json() if answer.content else None
        except ValueError as error:
            raise Unavailable(
                "placement-away", f"What answers {method} {path} is not Placement: its answer is no JSON."
            ) from error


def _group(suffix: str, group: RequestGroup, root: str | None) -> Iterator[str]:
    """A group with a suffix, as Nova writes those of a device profile."""
    yield f"resources{suffix}=" + ",".join(f"{name}:{amount}" for name, amount in group.amounts)
    marks = [*sorted(group.required), *(f"!{name}" for name in sorted(group.forbidden))]
    if marks:
        yield f"required{suffix}=" + ",".join(marks)
    for some in group.any_of:
        yield f"required{suffix}=in:" + ",".join(sorted(some))
    if root is not None:
        yield f"in_tree{suffix}={root}"


def _refusal(answer: Any, what: str) -> CantleError:
    code, detail = _said(answer)
    status = answer.status_code
    words = f"Placement answered {status} to {what}: {detail}"
    if status in _AWAY:
        return Unavailable("placement-away", words)
    if status == 409:
        return _conflict(code, words)
    if status == 404:
        return NotFound("provider-gone", words)
    return UnknownName("placement-refused", words) if status == 400 else CantleError("placement-refused", words)


def _conflict(code: str, words: str) -> Conflict:
    if code.endswith((".inuse", ".cannot_delete_parent")):
        return InUse("placement-in-use", words)
    if code.endswith(".duplicate_name"):
        return NameTaken("provider-name-taken", words)
    return GenerationConflict("placement-conflict", words)


def _said(answer: Any) -> tuple[str, str]:
    """Code and words of a refusal, in one line."""
    try:
        error = answer.json()["errors"][0]
        code, detail = str(error.get("code", "")), str(error.get("detail", ""))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return "", "(no explanation)"
    return code, " ".join(detail.split())[:500]


def _node(one: Mapping[str, Any]) -> Node:
    return Node(one["uuid"], one["name"], one.get("parent_provider_uuid"), one["generation"])


def _inventory(one: Mapping[str, Any]) -> Inventory:
    return Inventory(**{field: one[field] for field in _FIELDS})
