"""A host's full report: ``PUT /v1/hosts/{host}/inventory``."""

from __future__ import annotations

import msgspec

from cantle.model.attach_handle import AttachType
from cantle.model.device import DeviceType, Health, Mode
from cantle.wire.protocol import PROTOCOL


class HandleReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One deliverable unit. ``key`` is unique in its deployable and the same from report to report.

    ``uuid`` is given only for a unit that exists already and is adopted (spec S1.3): the handle then takes it.
    """

    key: str
    attach_type: AttachType
    attach_info: dict[str, str]
    uuid: str | None = None


class DeployableReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is offered together: one resource provider. ``handles`` has one entry per unit; their number is the inventory total."""

    name: str
    driver_name: str
    resource_class: str
    traits: tuple[str, ...]
    handles: tuple[HandleReport, ...]
    attributes: dict[str, str] = {}


class DeviceReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One card, lendable or not. ``address`` is its identity on the host. Ids are four lower-case hex digits, "" where there are none."""

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


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that went wrong while looking, which hides nothing else: one driver or one card."""

    source: str
    code: str
    message: str


class InventoryReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything the agent saw. ``agent_start`` is a uuid made anew at each start; ``digest`` is of ``devices`` and ``problems``:
    an unchanged one lets the server write nothing."""

    agent_start: str
    digest: str
    devices: tuple[DeviceReport, ...]
    problems: tuple[Problem, ...] = ()
    protocol: int = PROTOCOL


class InventoryAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the server made of a report. ``changed`` is false when the digest was known and nothing was written."""

    generation: int
    changed: bool
