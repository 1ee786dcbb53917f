"""The guest's hardware: what QEMU is told to emulate, what it passes for, and so what Cantle must find.

One table serves both sides: the harness makes QEMU's command line and the modules' parameters of it, the tests their expectations.
Each card sits below a root port of its own. Ports are numbered as they stand here, and so are the buses behind them.
"""

from __future__ import annotations

from dataclasses import dataclass

NVIDIA_DRIVER = "nvidia"


@dataclass(frozen=True)
class Identity:
    """What a function passes for (tests/kernel/modules/labpci.c); all hex digits. ``vf_device`` "0" is for functions without SR-IOV."""

    vendor: str
    device: str
    class_id: str
    subvendor: str
    subdevice: str
    vf_device: str = "0"


@dataclass(frozen=True)
class Function:
    """One function of a card: QEMU's device with its options, and the identity put over it (None: it stays what QEMU made it)."""

    device: str
    identity: Identity | None
    number: int = 0


@dataclass(frozen=True)
class Card:
    """A card below its own root port; ``name`` is also QEMU's id of its function 0, for the monitor."""

    name: str
    functions: tuple[Function, ...]


def _one(name: str, device: str, identity: Identity | None) -> Card:
    return Card(name, (Function(device, identity),))


_DISPLAY = "bochs-display"
_PLAIN = "pci-testdev"
#: QEMU makes its Device Serial Number of the MAC address, as Intel's card does; no driver here is for the identity it is given.
_NUMBERED = "e1000e,mac=52:54:00:12:34:56,romfile="
SERIAL = "52-54-00-ff-ff-12-34-56"
_SRIOV = (
    "nvme,serial=a40,subsys=nvm,sriov_max_vfs=4,sriov_vq_flexible=8,sriov_vi_flexible=4,max_ioqpairs=12,msix_qsize=13"
)
_T4 = Identity("10de", "1eb8", "030200", "10de", "12a2")

CARDS = (
    _one("t4", _DISPLAY, _T4),
    _one("t4-second", _DISPLAY, _T4),
    _one("a40", _SRIOV, Identity("10de", "2235", "030200", "10de", "145a", vf_device="2235")),
    Card(
        "geforce",
        (
            Function(f"{_DISPLAY},multifunction=on", Identity("10de", "2204", "030000", "10de", "1454")),
            Function("intel-hda", Identity("10de", "1aef", "040300", "10de", "1454"), number=1),
        ),
    ),
    _one("instinct", _DISPLAY, Identity("1002", "74a1", "120000", "1002", "74a1")),
    _one("flex", _DISPLAY, Identity("8086", "56c0", "038000", "8086", "4905")),
    _one("bmc", _DISPLAY, Identity("1a03", "2000", "030000", "1a03", "2000")),
    _one("nvswitch", _PLAIN, Identity("10de", "22a3", "068000", "10de", "1796")),
    _one("fpga", _NUMBERED, Identity("10ee", "5000", "120000", "10ee", "000e")),
    # What tests pull out: QEMU's display devices do not give their memory back when pulled, and so cannot be put in again.
    _one("hot", _PLAIN, Identity("10de", "2230", "030000", "10de", "1459")),
    _one("emulated", _DISPLAY, None),
)

#: Last, because the bridge takes a second bus: a display card and a foreign network card in one IOMMU group.
RADEON = Identity("1002", "73bf", "030000", "1002", "0e3a")
_BRIDGE_BUS = len(CARDS) + 1
BRIDGE = f"0000:{_BRIDGE_BUS:02x}:00.0"
SHARED_DISPLAY = f"0000:{_BRIDGE_BUS + 1:02x}:01.0"
SHARED_NIC = f"0000:{_BRIDGE_BUS + 1:02x}:02.0"


def address(name: str, function: int = 0) -> str:
    """The PCI address of a card's function, in sysfs form. Raises KeyError for a card that is not in the table."""
    buses = {card.name: bus for bus, card in enumerate(CARDS, start=1)}
    return f"0000:{buses[name]:02x}:00.{function}"


def port_of(name: str) -> str:
    """QEMU's id of the port that a card sits in. Raises ValueError for a card that is not in the table."""
    return f"port{[card.name for card in CARDS].index(name) + 1}"


def identities() -> dict[str, Identity]:
    """What each masqueraded function passes for, by address."""
    table = {
        address(card.name, f.number): f.identity for card in CARDS for f in card.functions if f.identity is not None
    }
    return {**table, SHARED_DISPLAY: RADEON}


@dataclass(frozen=True)
class GpuType:
    """A mediated-device type of the stand-in vendor driver. ``mib`` of frame buffer each, ``most`` on one function."""

    device: str
    number: int
    name: str
    mib: int
    most: int

    @property
    def type_id(self) -> str:
        """As the kernel names it, the driver's name first."""
        return f"{NVIDIA_DRIVER}-{self.number}"


#: MiB of frame buffer by device id.
MEMORY = {"1eb8": 16384, "2235": 49152}
#: The T4's type numbers and names are NVIDIA's own; those of the A40, which appear on its virtual functions, are ours.
GPU_TYPES = (
    GpuType("1eb8", 222, "GRID T4-1B", 1024, 16),
    GpuType("1eb8", 223, "GRID T4-2B", 2048, 8),
    GpuType("1eb8", 230, "GRID T4-1Q", 1024, 16),
    GpuType("1eb8", 234, "GRID T4-16Q", 16384, 1),
    GpuType("2235", 558, "NVIDIA A40-8Q", 8192, 1),
    GpuType("2235", 560, "NVIDIA A40-24Q", 24576, 1),
)


def labpci_parameters() -> list[str]:
    """The parameters of labpci.ko that give each function its identity."""
    rows = [
        f"{at}={i.vendor}:{i.device}:{i.class_id}:{i.subvendor}:{i.subdevice}:{i.vf_device}"
        for at, i in identities().items()
    ]
    return ["identity=" + ",".join(rows)]


def labgpu_parameters() -> list[str]:
    """The parameters of labgpu.ko that make it NVIDIA's driver of these cards."""
    types = ",".join(f"{t.device}:{t.number}:{t.name}:{t.mib}:{t.most}" for t in GPU_TYPES)
    memory = ",".join(f"{device}={mib}" for device, mib in MEMORY.items())
    return [f"drvname={NVIDIA_DRIVER}", "vendor=0x10de", f"memory={memory}", f'types="{types}"']


def device_arguments() -> list[str]:
    """QEMU's arguments for the IOMMU and all of the above."""
    argv = ["-device", "intel-iommu,intremap=on,caching-mode=on", "-device", "nvme-subsys,id=nvm,nqn=lab"]
    for bus, card in enumerate(CARDS, start=1):
        argv += _port(bus)
        for f in card.functions:
            name = card.name if f.number == 0 else f"{card.name}-{f.number}"
            argv += ["-device", f"{f.device},id={name},bus=port{bus},addr=0.{f.number}"]
    argv += ["-audiodev", "none,id=silence", "-device", "hda-output,bus=geforce-1.0,audiodev=silence"]
    argv += [*_port(_BRIDGE_BUS), "-device", f"pcie-pci-bridge,id=bridge,bus=port{_BRIDGE_BUS}"]
    argv += [
        "-device",
        "secondary-vga,id=radeon,bus=bridge,addr=1,romfile=",
        "-device",
        "e1000,id=nic,bus=bridge,addr=2,romfile=",
    ]
    return argv


def _port(number: int) -> list[str]:
    return [
        "-device",
        f"pcie-root-port,id=port{number},chassis={number},slot={number},bus=pcie.0,addr={0x0F + number:#x}",
    ]
