"""[pci] and [labels]: Nova's file as it is, each mistake with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from cantle.conf import devices, files, pci
from cantle.errors import BadConfig
from cantle.model.device_spec import Candidate
from cantle.model.pci import PciAddress

T4 = Candidate("10de", "1eb8", PciAddress.parse("0000:af:00.0"))


def file(place: Path, text: str, name: str = "nova.conf") -> str:
    """A file with this content."""
    path = place / name
    path.write_text(text)
    return str(path)


def test_aliases_under_todays_and_the_seeds_names_from_several_files(tmp_path: Path) -> None:
    one = file(tmp_path, '[pci]\nalias = {"name": "a1", "vendor_id": "10de", "product_id": "1eb8"}\n')
    two = file(
        tmp_path,
        '[DEFAULT]\npci_alias = {"name": "b1",\n  "vendor_id": "8086", "product_id": "0435"}\n'
        'pci_alias = {"name": "a1", "vendor_id": "10de", "product_id": "20b0"}\n',
        "old.conf",
    )
    found = pci.aliases(files.read([one, two]))
    assert {name: len(alias.specs) for name, alias in found.by_name.items()} == {"a1": 2, "b1": 1}


@pytest.mark.parametrize(
    "text",
    [
        '[pci]\ndevice_spec = {"vendor_id": "10de"}\n',
        '[pci]\npassthrough_whitelist = [{"vendor_id": "8086"}, {"vendor_id": "10de"}]\n',
        '[DEFAULT]\npci_passthrough_whitelist = {"address": "*:af:00.*"}\n',
        '[pci]\ndevice_spec = {"address": {"bus": "a"}}\nregex_prefix_match = true\n',
    ],
)
def test_the_whitelist_under_todays_and_the_seeds_names(tmp_path: Path, text: str) -> None:
    assert devices.load([file(tmp_path, text)]).labelling.whitelist.of(T4) is not None


def test_what_the_seeds_flag_says_of_a_host_is_a_label_of_its_cards(tmp_path: Path) -> None:
    old = file(
        tmp_path,
        "[DEFAULT]\ninstance_type_extra_specs = cpu_arch:x86_64, gpus:4,gpu_arch:fermi,hypervisor_type:LXC\n"
        '[labels]\nhost = {"cpu_arch": "aarch64"}\n',
    )
    labels = devices.load([old]).labelling.of("compute-1", "T4", T4)
    assert labels == {"cpu_arch": "aarch64", "gpu_arch": "fermi", "hypervisor_type": "LXC"}


def test_labels_by_host_vendor_product_address_and_model_later_ones_over_earlier_ones(tmp_path: Path) -> None:
    text = """
[labels]
host = {"hypervisor": "LXC", "rack": 7}
host = {"hostname": "gpu*", "room": "b"}
card = {"vendor_id": "10de", "gpu_arch": "turing", "rack": "r8"}
card = {"model": "*tesla t4*", "memory": 16}
card = {"address": "0000:3b:00.0", "slot": "3"}
"""
    found = pci.labelling([file(tmp_path, text)])
    assert found.of("gpu1", "TU104GL [Tesla T4]", T4) == {
        "hypervisor": "LXC",
        "rack": "r8",
        "room": "b",
        "gpu_arch": "turing",
        "memory": "16",
    }
    assert found.of("cpu1", "x", Candidate("8086", "1520", T4.address)) == {"hypervisor": "LXC", "rack": "7"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[DEFAULT]\n\ninstance_type_extra_specs = gpus:4,fermi\n",
            ":3: instance_type_extra_specs: 'fermi' is not key:value",
        ),
        ("[DEFAULT]\ninstance_type_extra_specs = traits:a\n", "traits cannot be a label"),
        ("[labels]\ncard = x\n", ":2: [labels] card: 'x' is no JSON"),
        ("[labels]\n\n\ncard = []\n", ":4: [labels] card: '[]' is not one JSON object"),
        ('[labels]\ncard = {"vendor_id": "10de"}\n', ":2: [labels] card: "),
        ('[labels]\nhost = {"vendor_id": "10de", "a": "b"}\n', ":2: [labels] host: vendor_id cannot be a label"),
        ('[labels]\ncard = {"gpus": 2}\n', "gpus cannot be a label"),
        ('[labels]\ncard = {"a": ["b"]}\n', "the label a is ['b']"),
        ('[labels]\ncard = {"model": 7, "a": "b"}\n', "model is 7"),
        ('[labels]\ncard = {"vendor_id": "x", "a": "b"}\n', ":2: [labels] card: property vendor_id"),
        (
            '[pci]\n# one\ndevice_spec = {"vendor_id": "10de"}\ndevice_spec = 7\n',
            ":4: [pci] device_spec: Invalid entry: '7'",
        ),
        ("[pci]\nregex_prefix_match = maybe\n", "[pci] regex_prefix_match"),
    ],
)
def test_a_mistake_is_told_with_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadConfig) as caught:
        devices.load([file(tmp_path, text)])
    assert said in caught.value.message
