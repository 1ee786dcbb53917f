"""Mediated devices: what parents offer, and making and removing one with every answer the kernel has."""

from __future__ import annotations

import errno

import pytest
from tests.unit.kernel.mdev_kernel import MdevKernel
from tests.unit.kernel.tree import MDEV, MDEV_BUS, Tree

from cantle.errors import BadRequest, Conflict, HostError
from cantle.kernel import mdev
from cantle.kernel.mdev import MdevDevice, MdevType

T4 = "0000:af:00.0"
U1 = "11111111-aaaa-4bbb-8ccc-000000000001"
U2 = "11111111-aaaa-4bbb-8ccc-000000000002"
U3 = "11111111-aaaa-4bbb-8ccc-000000000003"


@pytest.fixture
def kernel(tree: Tree) -> MdevKernel:
    """A T4 with two types and the kernel's own sample driver mtty."""
    tree.function(T4, "10de:1eb8", "030200", driver="nvidia", group=40)
    tree.parent(T4, {"nvidia-223": ("GRID T4-2B", 8), "nvidia-225": ("GRID T4-2Q", 8)})
    tree.parent("mtty", {"mtty-2": ("Dual port serial", 12)})
    return MdevKernel(tree)


def set_available(tree: Tree, parent: str, type_id: str, count: int) -> None:
    tree.file(f"{tree.places[parent]}/mdev_supported_types/{type_id}/available_instances", f"{count}\n")


def refusal(kernel: MdevKernel, parent: str = T4, type_id: str = "nvidia-223", uuid: str = U1) -> HostError:
    """The error that making a device gives."""
    with pytest.raises(HostError) as caught:
        mdev.create(kernel, parent, type_id, uuid)
    return caught.value


def test_parents_are_pci_functions_and_virtual_ones(kernel: MdevKernel) -> None:
    assert mdev.parents(kernel) == [T4, "mtty"]


def test_types_are_read_with_what_is_available(kernel: MdevKernel) -> None:
    kernel.tree.file(
        f"{kernel.tree.places[T4]}/mdev_supported_types/nvidia-223/description", "num_heads=4, max_instance=8\n"
    )
    assert mdev.types(kernel, T4)[0] == MdevType(
        "nvidia-223", "GRID T4-2B", "num_heads=4, max_instance=8", "vfio-pci", 8
    )
    assert mdev.types(kernel, "mtty") == [MdevType("mtty-2", "Dual port serial", None, "vfio-pci", 12)]


def test_a_type_without_a_name_is_a_type(tree: Tree) -> None:
    tree.function("0000:00:02.0", "8086:193b", "030000", driver="i915")
    tree.parent("0000:00:02.0", {"i915-GVTg_V5_8": (None, 2)})
    assert mdev.types(tree.root, "0000:00:02.0") == [MdevType("i915-GVTg_V5_8", None, None, "vfio-pci", 2)]


def test_a_parent_whose_driver_is_still_setting_up_offers_nothing_yet(tree: Tree) -> None:
    tree.parent("mtty", {})
    assert mdev.types(tree.root, "mtty") == []
    (tree.base / tree.places["mtty"] / "mdev_supported_types/mtty-1").mkdir(parents=True)
    assert mdev.types(tree.root, "mtty") == []
    assert not mdev.has_room(tree.root, "mtty")


def test_a_parent_that_is_not_there_offers_nothing(tree: Tree) -> None:
    assert mdev.types(tree.root, T4) == []


def test_what_is_available_must_be_a_number(kernel: MdevKernel) -> None:
    kernel.tree.file(f"{kernel.tree.places[T4]}/mdev_supported_types/nvidia-223/available_instances", "many\n")
    with pytest.raises(HostError, match="nvidia-223/available_instances holds 'many'"):
        mdev.types(kernel, T4)


def test_there_is_room_while_any_type_has_some(kernel: MdevKernel) -> None:
    assert mdev.has_room(kernel, T4)
    set_available(kernel.tree, T4, "nvidia-223", 0)
    assert mdev.has_room(kernel, T4)
    set_available(kernel.tree, T4, "nvidia-225", 0)
    assert not mdev.has_room(kernel, T4)


def test_a_device_is_made_and_seen(kernel: MdevKernel) -> None:
    mdev.create(kernel, T4, "nvidia-223", U1)
    mdev.create(kernel, "mtty", "mtty-2", U2)
    assert mdev.devices(kernel) == [MdevDevice(U1, "nvidia-223", T4), MdevDevice(U2, "mtty-2", "mtty")]
    assert kernel.writes[0] == (f"{MDEV_BUS}/{T4}/mdev_supported_types/nvidia-223/create", U1)


@pytest.mark.parametrize("answer", [errno.EEXIST, errno.ENOSPC, errno.EINVAL], ids=errno.errorcode.get)
def test_making_what_is_there_succeeds_whatever_the_kernel_answers_first(kernel: MdevKernel, answer: int) -> None:
    kernel.tree.mdev(T4, "nvidia-223", U1)
    kernel.fault = answer
    mdev.create(kernel, T4, "nvidia-223", U1)
    assert mdev.devices(kernel) == [mdev.MdevDevice(U1, "nvidia-223", T4)]


def test_a_device_whose_users_cannot_be_found_out_is_not_removed(kernel: MdevKernel) -> None:
    kernel.tree.mdev(T4, "nvidia-223", U1)
    kernel.tree.link("proc/self/ns/pid", "pid:[4026532000]")
    with pytest.raises(Conflict, match="cannot be found out") as caught:
        mdev.remove(kernel, U1)
    assert caught.value.code == "holders-unknown"
    assert kernel.writes == []


def test_losing_the_race_to_the_very_same_device_is_success(kernel: MdevKernel) -> None:
    kernel.before = lambda: kernel.tree.mdev(T4, "nvidia-223", U1)
    mdev.create(kernel, T4, "nvidia-223", U1)
    assert mdev.devices(kernel) == [MdevDevice(U1, "nvidia-223", T4)]


@pytest.mark.parametrize(("parent", "type_id"), [(T4, "nvidia-225"), ("mtty", "mtty-2")])
def test_a_uuid_that_is_another_device_is_refused_naming_both(kernel: MdevKernel, parent: str, type_id: str) -> None:
    kernel.tree.mdev(parent, type_id, U1)
    error = refusal(kernel)
    assert (error.code, error.errno) == ("mdev-uuid-taken", errno.EEXIST)
    assert f"{U1} is already a {type_id} on {parent}; a nvidia-223 on {T4}" in error.message
    assert mdev.devices(kernel) == [MdevDevice(U1, type_id, parent)]


def test_no_room_names_the_devices_that_use_the_card_up(kernel: MdevKernel) -> None:
    kernel.tree.mdev(T4, "nvidia-225", U2)
    kernel.tree.mdev(T4, "nvidia-225", U3)
    kernel.tree.mdev("mtty", "mtty-2", "11111111-aaaa-4bbb-8ccc-000000000009")
    set_available(kernel.tree, T4, "nvidia-223", 0)
    error = refusal(kernel)
    assert (error.code, error.errno) == ("mdev-no-room", errno.EUSERS)
    assert error.message == (f"nvidia-223 offers 0 on {T4}: the card carries 2 nvidia-225 ({U2}, {U3})")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EUSERS])
def test_a_driver_may_run_out_without_saying_so_before(kernel: MdevKernel, number: int) -> None:
    kernel.fault = number
    error = refusal(kernel)
    assert (error.code, error.errno) == ("mdev-no-room", number)
    assert f"{T4} has no room for another nvidia-223: nothing is made on this card" in error.message


def test_a_driver_that_says_einval_when_nothing_is_left_is_understood(kernel: MdevKernel) -> None:
    set_available(kernel.tree, T4, "nvidia-223", 0)
    kernel.fault = errno.EINVAL
    assert refusal(kernel).code == "mdev-no-room"


def test_siblings_on_other_virtual_functions_of_the_card_are_named(tree: Tree) -> None:
    tree.function("0000:08:00.0", "10de:25b6", "030200", sriov=(16, 2))
    tree.virtual_functions(
        "0000:08:00.0", "10de:25b6", ["0000:08:00.4", "0000:08:00.5"], first_group=90, driver="nvidia"
    )
    tree.parent("0000:08:00.4", {"nvidia-754": ("NVIDIA A2-16Q", 0)})
    tree.parent("0000:08:00.5", {"nvidia-742": ("NVIDIA A2-1B", 0)})
    tree.mdev("0000:08:00.4", "nvidia-754", U2)
    error = refusal(MdevKernel(tree), "0000:08:00.5", "nvidia-742")
    assert (
        f"nvidia-742 offers 0 on 0000:08:00.5: the card carries 1 nvidia-754 ({U2} (on 0000:08:00.4))" in error.message
    )


def test_a_type_the_parent_does_not_have_is_refused_with_those_it_has(kernel: MdevKernel) -> None:
    error = refusal(kernel, type_id="nvidia-999")
    assert error.code == "mdev-type-missing"
    assert error.message == f"{T4} does not offer nvidia-999; it offers nvidia-223, nvidia-225"


def test_a_parent_that_is_none_is_refused_with_those_there_are(kernel: MdevKernel) -> None:
    error = refusal(kernel, parent="0000:3b:00.0")
    assert error.code == "mdev-parent-missing"
    assert f"The parents of this host are {T4}, mtty" in error.message


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "this needs root"),
        (errno.EPERM, "this needs root"),
        (errno.EROFS, "/sys is mounted read-only here"),
        (errno.EBUSY, "its driver is busy; try again"),
        (errno.EAGAIN, "its driver is busy; try again"),
        (errno.EINVAL, "Invalid argument; see dmesg"),
        (errno.EIO, "Input/output error; see dmesg"),
        (errno.ENODEV, "No such device; see dmesg"),
    ],
)
def test_every_other_answer_becomes_a_sentence(kernel: MdevKernel, number: int, words: str) -> None:
    kernel.fault = number
    error = refusal(kernel)
    assert (error.code, error.errno) == ("mdev-refused", number)
    assert error.message.startswith(f"cannot make a nvidia-223 on {T4}: ")
    assert words in error.message
    assert error.path == f"/{MDEV_BUS}/{T4}/mdev_supported_types/nvidia-223/create"
    assert mdev.devices(kernel) == []


def test_a_device_that_does_not_appear_is_not_made(kernel: MdevKernel) -> None:
    kernel.deaf = True
    assert refusal(kernel).code == "mdev-not-made"


def test_a_device_is_removed_and_gone(kernel: MdevKernel) -> None:
    mdev.create(kernel, T4, "nvidia-223", U1)
    mdev.remove(kernel, U1)
    assert mdev.devices(kernel) == []
    assert kernel.writes[-1] == (f"{MDEV}/{U1}/remove", "1")


def test_removing_what_is_not_there_is_success(kernel: MdevKernel) -> None:
    mdev.remove(kernel, U1)
    assert kernel.writes == []


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENODEV])
def test_losing_the_race_to_another_removal_is_success(kernel: MdevKernel, number: int) -> None:
    kernel.tree.mdev(T4, "nvidia-223", U1)
    kernel.before = lambda: kernel.forget(U1)
    kernel.fault = number
    mdev.remove(kernel, U1)


def test_a_device_that_stays_is_not_removed(kernel: MdevKernel) -> None:
    kernel.tree.mdev(T4, "nvidia-223", U1)
    kernel.deaf = True
    with pytest.raises(HostError, match="still there") as caught:
        mdev.remove(kernel, U1)
    assert caught.value.code == "mdev-not-removed"


@pytest.mark.parametrize(("number", "words"), [(errno.EBUSY, "it is in use"), (errno.EACCES, "this needs root")])
def test_a_refused_removal_names_the_device(kernel: MdevKernel, number: int, words: str) -> None:
    kernel.tree.mdev(T4, "nvidia-223", U1)
    kernel.fault = number
    with pytest.raises(HostError) as caught:
        mdev.remove(kernel, U1)
    assert caught.value.code == "mdev-refused"
    assert caught.value.message == f"cannot remove {U1} (nvidia-223 on {T4}): {words}"


@pytest.mark.parametrize("node", ["/dev/vfio/77", "/dev/vfio/devices/vfio3"])
def test_a_device_in_a_guest_is_not_even_tried(kernel: MdevKernel, node: str) -> None:
    tree = kernel.tree
    tree.mdev(T4, "nvidia-223", U1, group=77)
    (tree.base / tree.places[T4] / U1 / "vfio-dev/vfio3").mkdir(parents=True)
    tree.file("proc/4711/comm", "qemu-system-x86\n")
    (tree.base / "proc/4711/fd").mkdir()
    (tree.base / "proc/4711/fd/33").symlink_to(node)
    with pytest.raises(HostError, match=r"pid 4711 \(qemu-system-x86\)") as caught:
        mdev.remove(kernel, U1)
    assert (caught.value.code, caught.value.errno) == ("mdev-in-use", errno.EBUSY)
    assert kernel.writes == []


@pytest.mark.parametrize(
    ("parent", "type_id", "uuid"),
    [
        (T4, "nvidia-223", U1.upper()),
        (T4, "nvidia-223", "../../../etc/passwd"),
        (T4, "nvidia-223", ""),
        ("../../devices", "nvidia-223", U1),
        ("..", "nvidia-223", U1),
        (T4, "../nvidia-223", U1),
        (T4, "nvidia 223", U1),
        ("", "nvidia-223", U1),
    ],
)
def test_a_name_that_would_lead_elsewhere_is_refused(kernel: MdevKernel, parent: str, type_id: str, uuid: str) -> None:
    with pytest.raises(BadRequest) as caught:
        mdev.create(kernel, parent, type_id, uuid)
    assert caught.value.code == "bad-mdev-name"
    assert kernel.writes == []


def test_a_device_whose_type_cannot_be_told_is_going_away(kernel: MdevKernel) -> None:
    kernel.tree.mdev(T4, "nvidia-223", U1)
    (kernel.tree.base / kernel.tree.places[T4] / U1 / "mdev_type").unlink()
    assert mdev.devices(kernel) == []
