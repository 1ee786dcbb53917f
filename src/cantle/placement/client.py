"""The calls to Placement, with its answers as values and its refusals as errors.

Every call names its microversion: as Nova's report client, none later than the oldest Placement that can be of use (1.26, Rocky), save
for giving a provider another parent (1.37).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from keystoneauth1.exceptions import CatalogException, ClientException, ConnectTimeout, Unauthorized

from cantle.errors import Forbidden, NotFound, Unavailable
from cantle.model.provider import Inventory, Node, Provider
from cantle.model.request import Request, RequestGroup
from cantle.placement.refusal import UnknownName, refusal

#: ``reserved`` may equal ``total`` from here on, and refusals carry codes.
MICROVERSION = "1.26"
#: The first that moves capacity between providers at once.
RESHAPE = "1.30"
#: The first in which a provider may get another parent.
REPARENT = "1.37"
#: The first whose candidates come from nested providers, and in which a host, and one of several traits, can be asked for.
CANDIDATES, IN_TREE, ANY_TRAIT = "1.29", "1.31", "1.39"

_FIELDS = ("total", "reserved", "max_unit", "min_unit", "step_size", "allocation_ratio")


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
        return self._set(f"/resource_providers/{uuid}/inventories", _body(generation, inventories))

    def may_reshape(self) -> None:
        """Make sure that `reshape` is allowed. Placement looks at who asks before it looks at what: nothing is asked for.

        :raises Forbidden: ``reshaper-forbidden``: the role is missing, or Placement is older than Rocky.
        """
        answer = self._send("POST", "/reshaper", {}, RESHAPE)
        status = answer.status_code
        if status in (403, 404, 406):
            raise Forbidden(
                "reshaper-forbidden",
                f"Placement does not let us move cards into or out of a pool: it answered {status} to POST /reshaper. Its rule "
                "placement:reshaper:reshape wants the role 'service': give it to the user of [placement] in its project (openstack role "
                "add --user cantle --project service service), or set [placement] pool_identical as it was.",
            )
        if status != 400:
            raise refusal(answer, "POST /reshaper", RESHAPE)

    def reshape(self, wanted: Mapping[str, tuple[int, Mapping[str, Inventory]]]) -> None:
        """Replace the inventories of several providers at once; by uuid, the generation of each and what it shall have.

        :raises GenerationConflict: ``placement-conflict``.
        :raises InUse: ``placement-in-use``.
        :raises UnknownName: ``placement-refused``.
        """
        inventories = {uuid: _body(generation, some) for uuid, (generation, some) in wanted.items()}
        self._call("POST", "/reshaper", {"inventories": inventories, "allocations": {}}, RESHAPE)

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
        answer = self._send(method, path, body, version)
        if answer.status_code >= 300:
            raise refusal(answer, f"{method} {path}", version)
        try:
            return answer.json() if answer.content else None
        except ValueError as error:
            raise Unavailable(
                "placement-away",
                f"What answers {method} {path} is not Placement: its answer is no JSON.",
                answer="no JSON",
            ) from error

    def _send(self, method: str, path: str, body: object, version: str) -> Any:
        self.requests += 1
        try:
            return self._adapter.request(path, method, json=body, microversion=version, raise_exc=False)
        except ClientException as error:
            words = str(error).rstrip(".")
            raise Unavailable(
                "placement-away", f"Placement cannot be reached: {words}.{_mend(error)}", answer=type(error).__name__
            ) from error


def _mend(error: ClientException) -> str:
    """What to do about a way to Placement that waiting does not open; "" where waiting may."""
    if isinstance(error, Unauthorized):
        return " Keystone refuses the login of [placement]: see its username, password, project and domains."
    if isinstance(error, ConnectTimeout):
        return " So long does timeout of [placement] say: see whether Placement, its database or what is in front of it is slow or silent."
    if isinstance(error, CatalogException):
        return " The catalog has no such endpoint: see region_name and valid_interfaces of [placement], or set its endpoint_override."
    return ""


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


def _node(one: Mapping[str, Any]) -> Node:
    return Node(one["uuid"], one["name"], one.get("parent_provider_uuid"), one["generation"])


def _inventory(one: Mapping[str, Any]) -> Inventory:
    return Inventory(**{field: one[field] for field in _FIELDS})


def _body(generation: int, inventories: Mapping[str, Inventory]) -> dict[str, Any]:
    fields = {name: {field: getattr(one, field) for field in _FIELDS} for name, one in inventories.items()}
    return {"resource_provider_generation": generation, "inventories": fields}
