"""A host's full report: ``PUT /v1/hosts/{host}/inventory``."""

from __future__ import annotations

import msgspec

from cantle.model.attach_handle import AttachType
from cantle.model.device import DeviceType, Health, Mode
from cantle.wire.intent import PlanReport
from cantle.wire.protocol import PROTOCOL


class HandleReport(msgspec.Struct, frozen=True):
    """One deliverable unit. ``key`` is unique in its deployable and the same from report to report.

    ``uuid`` is given only for a unit that exists already and is adopted (spec S1.3): the handle then takes it.
    """

    key: str
    attach_type: AttachType
    attach_info: dict[str, str]
    uuid: str | None = None


class DeployableReport(msgspec.Struct, frozen=True):
    """What is offered together: one resource provider. ``handles`` has one entry per unit; their number is the inventory total."""

    name: str
    driver_name: str
    resource_class: str
    traits: tuple[str, ...]
    handles: tuple[HandleReport, ...]
    attributes: dict[str, str] = {}


class DeviceReport(msgspec.Struct, frozen=True):
    """One card, lendable or not. ``address`` is its identity on the host. Ids are four lower-case hex digits, "" where there are none.

    ``capabilities`` are the modes it could be in; ``mdev_types`` has, by parent (the card itself, or each of its virtual functions),
    id and name ("" for none) of the mediated types that can be made there. Both are remembered from when the card was last seen on
    its own driver: a card on vfio-pci still has them.

    ``intent_version`` is that of the `DeviceIntent` the card is in accordance with, 0 for none: units are offered, in this very
    report, as that intent has them. ``intent_tried`` is the version the agent last tried to apply; ``intent_code`` and
    ``intent_error`` say why that failed, and are None when it did not. ``plans`` has, by mode, what the agent would do to bring the
    card to that mode now.

    ``labels`` are what the host's configuration says of the card (spec S2.3) and the tags of its whitelist.
    """

    address: str
    type: DeviceType
    vendor: str
    model: str
    vendor_id: str
    product_id: str
    mode: Mode
    health: Health
    reason: str | None = None
    numa_node: int | None = None
    capabilities: tuple[str, ...] = ()
    std_board_info: dict[str, str] = {}
    vendor_board_info: dict[str, str] = {}
    deployables: tuple[DeployableReport, ...] = ()
    mdev_types: dict[str, dict[str, str]] = {}
    intent_version: int = 0
    intent_tried: int = 0
    intent_code: str | None = None
    intent_error: str | None = None
    plans: dict[str, PlanReport] = {}
    labels: dict[str, str] = {}


class Problem(msgspec.Struct, frozen=True):
    """Something that went wrong while looking, which hides nothing else: one driver or one card."""

    source: str
    code: str
    message: str


class Condition(msgspec.Struct, frozen=True):
    """Something about the host or its agent as a whole that a person should know while it lasts: ``disk-full``, ``server-was-away``.

    ``code`` is stable, in kebab case, and explained in ``docs/errors``; ``message`` names the thing and the mend.
    """

    code: str
    message: str


class InventoryReport(msgspec.Struct, frozen=True):
    """Everything the agent saw. ``agent_start`` is a uuid made anew at each start; ``digest`` is of ``devices``, ``problems``,
    ``conditions`` and ``sockets``: an unchanged one lets the server write nothing.

    Which machine speaks, for telling a reboot from another machine and from a copy of this one (all "" or 0 where not known):
    ``machine`` is a hash of the machine's own id, never the id itself, which machine-id(5) asks to keep to oneself; ``boot`` is the
    kernel's id of this boot; ``starts`` counts the starts of the agent with this memory, this one included. ``clock`` is the host's time
    when the report was sent, in seconds since 1970; ``version`` is that of the agent's program.

    ``generation`` is the highest generation of `cantle.wire.work.Work` that the host has followed, over all lives of its agent; 0 for
    none. One that is ahead of the server's says that the server has forgotten something: its database was restored from a backup. Such
    a host is frozen: see ``Work.confirmed``.

    ``sockets`` has, by memory node with CPUs, the number of the socket it is on, None where that is not known; empty where nothing is.
    """

    agent_start: str
    digest: str
    devices: tuple[DeviceReport, ...]
    problems: tuple[Problem, ...] = ()
    protocol: int = PROTOCOL
    conditions: tuple[Condition, ...] = ()
    machine: str = ""
    boot: str = ""
    starts: int = 0
    generation: int = 0
    clock: float | None = None
    version: str = ""
    sockets: dict[int, int | None] = {}


class InventoryAnswer(msgspec.Struct, frozen=True):
    """What the server made of a report. ``changed`` is false when the digest was known and nothing was written."""

    generation: int
    changed: bool
