"""A card that the whitelist names by its network interface, from the host's files to the report and back from the agent's memory."""

from __future__ import annotations

from pathlib import Path

from tests.unit.kernel.tree import Tree

from cantle.agent import discover
from cantle.conf import pci
from cantle.drivers import loader
from cantle.drivers.driver import Known
from cantle.kernel.root import Root
from cantle.model.enabled_types import EnabledTypes
from cantle.wire.inventory import DeviceReport


def looked(root: Root, enabled: EnabledTypes, known: dict[str, Known]) -> DeviceReport:
    """The only card of a host as its agent reports it."""
    view, problems = discover.look("h", root, enabled, {}, known=known)
    (card,) = discover.report(view, loader.load()[0], problems, "start").devices
    return card


def test_it_is_lent_while_it_has_its_interface_and_stays_so_on_vfio_pci(tmp_path: Path) -> None:
    conf = tmp_path / "nova.conf"
    conf.write_text('[pci]\ndevice_spec = {"devname": "ens3", "color": "red"}\n')
    enabled = EnabledTypes(labelling=pci.labelling([str(conf)]))
    tree = Tree(tmp_path / "tree")
    tree.function("0000:81:00.0", "10de:20b0", "030200", driver="nvidia", group=7)
    place = tree.places["0000:81:00.0"]
    tree.link("sys/class/net/ens3", f"{place}/net/ens3")
    tree.link(f"{place}/net/ens3/device", place)
    card = looked(tree.root, enabled, {})
    assert (card.labels["color"], card.vendor_board_info["interfaces"], len(card.deployables)) == ("red", "ens3", 1)
    known = discover.remember({}, [card])
    (tree.base / "sys/class/net/ens3").unlink()
    (tree.base / place / "driver").unlink()
    tree.link(f"{place}/driver", "sys/bus/pci/drivers/vfio-pci")
    card = looked(tree.root, enabled, known)
    assert (card.labels["color"], len(card.deployables)) == ("red", 1)
    assert discover.remember(known, [card]) == known
