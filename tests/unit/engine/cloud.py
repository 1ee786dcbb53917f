"""Hosts and people for engine tests: reports as agents send them, and an agent that does what it is told or fails as it is told."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

import msgspec

from cantle.engine.arq import create_arqs, list_arqs
from cantle.engine.bind import Bind, bind
from cantle.engine.capacity import list_capacity
from cantle.engine.intake import accept_report
from cantle.engine.profile import create_profile
from cantle.engine.results import accept_results
from cantle.engine.work import current_work
from cantle.model.arq import Arq
from cantle.model.attach_handle import AttachType
from cantle.model.capacity import Capacity
from cantle.model.device import DeviceType, Health, Mode
from cantle.model.identity import Identity
from cantle.store.database import Database
from cantle.wire.inventory import DeployableReport, DeviceReport, HandleReport, InventoryAnswer, InventoryReport
from cantle.wire.work import HandleResult, Outcome, Results, Work

ADMIN = Identity("root", "admin-project", frozenset({"admin"}))
NOVA_FOR_ADMIN = replace(ADMIN, is_service=True)
ALICE = Identity("alice", "alice-project", frozenset({"member"}))
NOVA_FOR_ALICE = replace(ALICE, is_service=True)
BOB = Identity("bob", "bob-project", frozenset({"member"}))
NOVA_FOR_BOB = replace(BOB, is_service=True)

T4_2B = "CUSTOM_NVIDIA_1EB8_T4_2B"


def mdev_units(count: int, *, address: str = "0000:af:00.0", type_id: str = "nvidia-223") -> tuple[HandleReport, ...]:
    """Units of a card that is cut into mediated devices."""
    domain, bus, rest = address.split(":")
    device, function = rest.split(".")
    info = {"domain": domain, "bus": bus, "device": device, "function": function, "asked_type": type_id}
    keys = [f"{type_id}_{number}" for number in range(count)]
    return tuple(HandleReport(key, AttachType.MDEV, {**info, "vgpu_mark": key}) for key in keys)


def t4(
    count: int = 4, *, host: str = "compute-1", address: str = "0000:af:00.0", health: Health = Health.OK
) -> DeviceReport:
    """The card of the seed's example (spec S0.9), with so many vGPUs."""
    offered = DeployableReport(
        f"{host}_{address}",
        "nvidia",
        "VGPU",
        ("OWNER_CYBORG", T4_2B),
        mdev_units(count, address=address),
        {"vendor": "nvidia"},
    )
    return DeviceReport(
        address,
        DeviceType.GPU,
        "10de",
        "T4",
        "10de",
        "1eb8",
        Mode.MDEV,
        health,
        capabilities=("mdev",),
        deployables=(offered,),
    )


def whole(
    *, host: str = "compute-1", address: str = "0000:3b:00.0", traits: Sequence[str] = ("OWNER_CYBORG",)
) -> DeviceReport:
    """A card that is lent whole."""
    domain, bus, rest = address.split(":")
    device, function = rest.split(".")
    unit = HandleReport(address, AttachType.PCI, {"domain": domain, "bus": bus, "device": device, "function": function})
    offered = DeployableReport(f"{host}_{address}", "nvidia", "PGPU", tuple(traits), (unit,))
    return DeviceReport(
        address, DeviceType.GPU, "10de", "A100", "10de", "20b0", Mode.PASSTHROUGH, Health.OK, deployables=(offered,)
    )


@dataclass
class Host:
    """A host's agent: it reports devices, and brings its units to what the server wants.

    ``refusing`` makes it fail units (by uuid, or all with "*") with that code.
    """

    db: Database
    name: str = "compute-1"
    devices: Sequence[DeviceReport] = ()
    start: str = field(default_factory=lambda: str(uuid4()))
    refusing: dict[str, str] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)

    def report(self, *devices: DeviceReport) -> InventoryAnswer:
        """Send an inventory; the given devices are what it has from now on."""
        if devices:
            self.devices = devices
        return accept_report(self.db, self.name, self.message())

    def message(self) -> InventoryReport:
        """The report it sends."""
        devices = tuple(self.devices)
        return InventoryReport(self.start, hashlib.sha256(msgspec.json.encode(devices)).hexdigest(), devices)

    def restart(self) -> None:
        """A new life of the agent."""
        self.start = str(uuid4())

    def obey(self, work: Work | None = None) -> Work:
        """Do what the server wants and say what became of it."""
        work = work or current_work(self.db, self.name)
        accept_results(self.db, self.name, self.results(work))
        return work

    def results(self, work: Work) -> Results:
        """Do what is wanted; the message about it."""
        done = [self._one(handle.uuid, Outcome.READY) for handle in work.wanted]
        done += [self._one(handle.uuid, Outcome.ABSENT) for handle in work.unwanted]
        return Results(self.start, work.generation, tuple(done))

    def _one(self, uuid: str, outcome: Outcome) -> HandleResult:
        code = self.refusing.get(uuid, self.refusing.get("*"))
        if code is not None:
            return HandleResult(uuid, Outcome.FAILED, code, f"{uuid}: {code}")
        if outcome is Outcome.READY:
            self.held.add(uuid)
        else:
            self.held.discard(uuid)
        return HandleResult(uuid, outcome)


def make_profile(
    db: Database, name: str = "vgpu", groups: Sequence[Mapping[str, object]] = ({"resources:VGPU": "1"},)
) -> None:
    """A device profile."""
    create_profile(db, ADMIN, name=name, groups=list(groups))


def capacity_of(db: Database, hostname: str = "compute-1") -> Capacity:
    """The capacity of a host that has one deployable."""
    (found,) = [capacity for capacity in list_capacity(db) if capacity.hostname == hostname]
    return found


def bound(
    db: Database, host: Host, who: Identity = NOVA_FOR_ALICE, profile: str = "vgpu", instance: str | None = None
) -> list[Arq]:
    """ARQs of a profile, bound on the host's only deployable for an instance, and made ready."""
    instance = instance or str(uuid4())
    arqs = create_arqs(db, who, profile)
    provider = capacity_of(db, host.name).rp_uuid
    bind(db, who, [Bind(arq.uuid, host.name, provider, instance) for arq in arqs])
    host.obey()
    return list_arqs(db, who, instance=instance)
