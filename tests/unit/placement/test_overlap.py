"""Devices that the compute service lends by itself are held back and said so (spec S3.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.databases import database
from tests.placement_service import Placement
from tests.unit.engine.cloud import t4, whole
from tests.unit.placement.cloud import AF, Cloud

from cantle.conf import files, placement
from cantle.errors import BadConfig
from cantle.placement.overlap import address_of


def nova_has(cloud: Cloud, name: str, resource_class: str) -> str:
    """A provider that nova-compute made under the compute node."""
    uuid = str(uuid4())
    body = {"name": name, "uuid": uuid, "parent_provider_uuid": cloud.nodes["compute-1"]}
    cloud.placement.call("POST", "/resource_providers", body)
    path = f"/resource_providers/{uuid}"
    inventory: dict[str, Any] = {"resource_provider_generation": 0, "inventories": {resource_class: {"total": 2}}}
    cloud.placement.call("PUT", f"{path}/inventories", inventory)
    cloud.placement.call("PUT", f"{path}/traits", {"resource_provider_generation": 1, "traits": ["OWNER_NOVA"]})
    return uuid


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("compute-1_0000:AF:00.0", "0000:af:00.0"),
        ("compute-1_pci_0000_84_00_0", "0000:84:00.0"),
        ("compute-1_0000:af:00.0", None),  # Cyborg's and our own spelling
        ("compute-1_something", None),
        ("compute-10_pci_0000_84_00_0", None),
        ("compute-1", None),
    ],
)
def test_novas_providers_are_known_by_their_names(name: str, address: str | None) -> None:
    assert address_of("compute-1", name) == address


def test_a_card_of_novas_own_pci_list_is_held_back_and_the_others_are_not(service: Placement, tmp_path: Path) -> None:
    with database("sqlite", tmp_path) as db:
        cloud = Cloud(db, service)
        nova_has(cloud, "compute-1_0000:3B:00.0", "PGPU")
        cloud.host.report(t4(4), whole())
        cloud.keeper().round()
        shown = cloud.shown()
        assert shown["compute-1_0000:3b:00.0 PGPU"] == (1, 1)
        assert shown[AF] == (4, 0)
        waiting = cloud.states()[0].waiting
        assert "the compute service lends 0000:3b:00.0 by itself (provider compute-1_0000:3B:00.0)" in waiting


def test_a_nova_compute_that_makes_vgpus_itself_keeps_ours_of_that_class_back_until_it_stops(
    service: Placement, tmp_path: Path
) -> None:
    with database("sqlite", tmp_path) as db:
        cloud = Cloud(db, service)
        theirs = nova_has(cloud, "compute-1_pci_0000_84_00_0", "VGPU")
        cloud.host.report(t4(4), whole())
        cloud.keeper().round()
        shown = cloud.shown()
        assert shown[AF] == (4, 4)
        assert shown["compute-1_0000:3b:00.0 PGPU"] == (1, 0)
        assert "mdev_class" in cloud.states()[0].waiting
        cloud.host.report(t4(8), whole())
        assert not [one for one in cloud.round() if one.startswith("GET")], "remembered between looks"
        assert cloud.shown()[AF] == (8, 8)
        service.call("DELETE", f"/resource_providers/{theirs}")
        cloud.time_passes()
        cloud.keeper().round()
        assert cloud.shown()[AF] == (8, 0)
        assert cloud.states()[0].waiting is None


def test_what_a_nova_conf_lends_by_itself_is_held_back_with_the_file_named(service: Placement, tmp_path: Path) -> None:
    file = tmp_path / "nova.conf"
    file.write_text('[pci]\ndevice_spec = {"vendor_id": "10de", "product_id": "20b0", "address": "*:3b:00.*"}\n')
    conf = tmp_path / "cantle.conf"
    conf.write_text(f"[placement]\nnova_conf = {file}\n")
    with database("sqlite", tmp_path) as db:
        cloud = Cloud(db, service, placement.settings(files.read([str(conf)])))
        cloud.host.report(t4(4), whole(), whole(address="0000:3c:00.0"))
        cloud.keeper().round()
        shown = cloud.shown()
        assert shown == {AF: (4, 0), "compute-1_0000:3b:00.0 PGPU": (1, 1), "compute-1_0000:3c:00.0 PGPU": (1, 0)}
        assert f"[pci] device_spec in {file}" in cloud.states()[0].waiting


def test_a_class_that_a_nova_conf_makes_mediated_devices_of_is_held_back(service: Placement, tmp_path: Path) -> None:
    file = tmp_path / "nova.conf"
    file.write_text("[devices]\nenabled_mdev_types = nvidia-35\n[mdev_nvidia-35]\ndevice_addresses = 0000:84:00.0\n")
    conf = tmp_path / "cantle.conf"
    conf.write_text(f"[placement]\nnova_conf = {file}\n")
    with database("sqlite", tmp_path) as db:
        cloud = Cloud(db, service, placement.settings(files.read([str(conf)])))
        cloud.host.report(t4(4), whole())
        cloud.keeper().round()
        assert cloud.shown() == {AF: (4, 4), "compute-1_0000:3b:00.0 PGPU": (1, 0)}


def test_a_nova_conf_that_is_not_there_is_refused(tmp_path: Path) -> None:
    conf = tmp_path / "cantle.conf"
    conf.write_text(f"[placement]\nnova_conf = {tmp_path / 'nowhere.conf'}\n")
    with pytest.raises(BadConfig) as refused:
        placement.settings(files.read([str(conf)]))
    assert refused.value.code == "config-file-missing"
