"""One host's tree of providers: what a `cantle.placement.sync.Sync` is given, what comes of it, and where it keeps what it knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from cantle.errors import CantleError, Conflict, NotFound
from cantle.model.provider import Node, Provider, Record, Wanted
from cantle.placement.exchange import Trade

if TYPE_CHECKING:
    from cantle.placement.client import PlacementClient  # needs an extra; whoever has a client has it


class Ledger(Protocol):
    """Where records are kept. All raise whatever shall end the attempt, such as the loss of the claim on the host."""

    def take_root(self, root: Node) -> None:
        """This is the host's root provider from now on; raises if it is another host's."""

    def keep(self, records: Sequence[Record]) -> None:
        """Write records, for good, before returning."""

    def forget(self, uuids: Sequence[str]) -> None:
        """Those providers are not there any more."""


@dataclass(frozen=True, slots=True)
class HostTree:
    """One host: what is wanted, and what is known.

    :param names: what its root provider may be called, the likeliest first.
    :param root: the root as it was last found; None if it never was.
    :param wanted: by uuid, everything it shall have, and what shall go that we remember.
    :param look: read the tree even if nothing changed here: others may have changed it there.
    :param overlap: by uuid, what is held back since the compute service lends the same, as it was when the tree was last read.
    :param collide: computes that anew from Nova's own providers in the tree, when it is read.
    :param trade: what may move between its providers.
    """

    hostname: str
    names: Sequence[str]
    root: Node | None
    wanted: Mapping[str, Wanted]
    records: Mapping[str, Record]
    look: bool = False
    overlap: Mapping[str, str] = field(default_factory=dict)
    collide: Callable[[Node, Sequence[Provider]], Mapping[str, str]] | None = None
    trade: Trade = field(default_factory=Trade)


@dataclass(slots=True)
class Outcome:
    """What came of it.

    :param others: providers in the host's tree that are not ours; None if the tree was not read.
    :param overlap: by uuid, what is held back since the compute service lends the same.
    :param retiring: names of providers that wait for somebody to let go.
    :param problems: by name of the provider, what kept it from what it shall be.
    """

    root: Node | None = None
    others: list[Node] | None = None
    overlap: Mapping[str, str] = field(default_factory=dict)
    retiring: list[str] = field(default_factory=list)
    problems: dict[str, CantleError] = field(default_factory=dict)
    written: int = 0


def find_root(placement: PlacementClient, hostname: str, names: Sequence[str]) -> Node:
    """The provider of the host's compute node.

    :raises NotFound: ``host-not-in-placement``.
    """
    for name in names:
        found = placement.find(name)
        if found is not None:
            return found
    tried = " and ".join(repr(name) for name in names)
    raise NotFound(
        "host-not-in-placement",
        f"Placement has no provider for host {hostname}: tried {tried}. Start its nova-compute, or name the provider in [placement] "
        f"provider_names = {hostname}:NAME.",
    )


def name_taken(placement: PlacementClient, hostname: str, name: str) -> Conflict | None:
    """That another provider has the name of one of ours (``provider-name-taken``), which one, and what to do about it; None if none has."""
    other = placement.find(name)
    if other is None:
        return None
    return Conflict(
        "provider-name-taken",
        f"Provider {other.uuid} has the name {name}, and is none of ours. Did Cyborg make it ('cantle placement adopt {hostname} --plan' "
        f"shows it)? Then 'cantle placement adopt {hostname}' takes it over. Else see that nobody has anything of it ('openstack resource "
        f"provider show --allocations {other.uuid}' says allocations: {{}}), and delete it: "
        f"'openstack resource provider delete {other.uuid}'.",
    )
