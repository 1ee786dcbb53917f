"""Modules are loaded only by request, only on the machine itself, and a refusal keeps the tool's words."""

from __future__ import annotations

import pytest
from tests.unit.kernel_steps.pci_bus import PciBus

from cantle.errors import BadRequest, HostError
from cantle.kernel import modules
from cantle.kernel.root import Root


def test_a_driver_is_present_by_its_directory_even_when_built_in(host: PciBus) -> None:
    assert modules.driver_present(host, "vfio-pci")
    assert not modules.driver_present(host, "amdgpu")


@pytest.mark.parametrize("name", ["", "-r", "../x", "a b", "x;y"])
def test_what_is_no_module_name_never_reaches_the_tool(name: str) -> None:
    with pytest.raises(BadRequest) as caught:
        modules.load(Root(), name)
    assert caught.value.code == "bad-module-name"


def test_a_tree_of_files_loads_nothing(host: PciBus) -> None:
    with pytest.raises(HostError, match="only the machine itself can run modprobe") as caught:
        modules.load(host, "vfio-pci")
    assert caught.value.code == "module-load-failed"


def test_a_module_that_this_machine_does_not_have_is_an_error_that_names_it() -> None:
    with pytest.raises(HostError, match="cannot load the module cantle_no_such_module: ") as caught:
        modules.load(Root(), "cantle_no_such_module")
    assert caught.value.code == "module-load-failed"
