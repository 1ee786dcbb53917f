"""``cantle.kernel.mdev`` on the kernel's samples and NVIDIA's stand-in: what is made is there, what is refused is explained."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.holder import holding
from tests.kernel.lab import machine

from cantle.errors import BadRequest, HostError
from cantle.kernel import mdev
from cantle.kernel.mdev import MdevDevice
from cantle.kernel.root import Root

ROOT = Root("/")
T4 = machine.address("t4")
SECOND = machine.address("t4-second")
A40 = machine.address("a40")

#: What each parent offers when nothing is made: mtty has 24 ports, mdpy makes 4 devices, mbochs has 256 MiB (their sources' defaults).
OFFERED = {
    "mtty": {"mtty-1": ("Single port serial", 24), "mtty-2": ("Dual port serial", 12)},
    "mdpy": {"mdpy-vga": ("mdpy-vga", 4), "mdpy-xga": ("mdpy-xga", 4), "mdpy-hd": ("mdpy-hd", 4)},
    "mbochs": {
        "mbochs-small": ("mbochs-small", 64),
        "mbochs-medium": ("mbochs-medium", 16),
        "mbochs-large": ("mbochs-large", 4),
    },
    T4: {t.type_id: (t.name, t.most) for t in machine.GPU_TYPES if t.device == "1eb8"},
}
ONE_OF_EACH = [("mtty", "mtty-2"), ("mdpy", "mdpy-xga"), ("mbochs", "mbochs-large"), (T4, "nvidia-223")]


@pytest.fixture
def made() -> Iterator[list[str]]:
    """Uuids that the test makes; taken away again after it, whatever came of it."""
    uuids: list[str] = []
    yield uuids
    for one in uuids:
        if (sysfs.MDEVS / one).exists():
            sysfs.write(sysfs.MDEVS / one / "remove", "1")


def make(made: list[str], parent: str, type_id: str) -> str:
    made.append(str(uuid.uuid4()))
    mdev.create(ROOT, parent, type_id, made[-1])
    return made[-1]


def test_every_parent_is_found() -> None:
    assert mdev.parents(ROOT) == sorted(["mtty", "mdpy", "mbochs", T4, SECOND])


@pytest.mark.parametrize("parent", OFFERED)
def test_a_parent_s_types_are_read_with_names_and_room(parent: str) -> None:
    found = {one.type_id: (one.name, one.available_instances) for one in mdev.types(ROOT, parent)}
    assert found == OFFERED[parent]
    assert {one.device_api for one in mdev.types(ROOT, parent)} == {"vfio-pci"}


@pytest.mark.parametrize(("parent", "type_id"), ONE_OF_EACH)
def test_a_device_is_made_counted_and_taken_away(parent: str, type_id: str, made: list[str]) -> None:
    room = sysfs.available(parent, type_id)
    one = make(made, parent, type_id)
    assert (sysfs.MDEVS / one / "mdev_type").resolve().name == type_id
    assert (sysfs.MDEVS / one).resolve().parent.name == parent
    assert mdev.devices(ROOT) == [MdevDevice(one, type_id, parent)]
    assert sysfs.available(parent, type_id) == room - 1

    mdev.remove(ROOT, one)
    assert sysfs.mdevs() == set()
    assert sysfs.available(parent, type_id) == room


@pytest.mark.parametrize(("parent", "type_id"), ONE_OF_EACH)
def test_making_or_removing_again_changes_nothing(parent: str, type_id: str, made: list[str]) -> None:
    one = make(made, parent, type_id)
    room = sysfs.available(parent, type_id)
    mdev.create(ROOT, parent, type_id, one)
    assert sysfs.available(parent, type_id) == room
    mdev.remove(ROOT, one)
    mdev.remove(ROOT, one)
    assert sysfs.mdevs() == set()


def test_a_uuid_that_is_another_device_already_is_refused_with_both_named(made: list[str]) -> None:
    one = make(made, "mtty", "mtty-1")
    with pytest.raises(HostError) as caught:
        mdev.create(ROOT, T4, "nvidia-223", one)
    assert caught.value.code == "mdev-uuid-taken"
    for word in (one, "mtty-1 on mtty", f"nvidia-223 on {T4}"):
        assert word in caught.value.message


def test_the_kernel_answers_eexist_for_a_uuid_it_has(made: list[str]) -> None:
    one = make(made, "mtty", "mtty-1")
    with pytest.raises(HostError) as caught:
        ROOT.write("sys/class/mdev_bus/mtty/mdev_supported_types/mtty-2/create", one)
    assert caught.value.errno == errno.EEXIST


def test_the_kernel_answers_einval_for_what_is_no_uuid() -> None:
    with pytest.raises(HostError) as caught:
        ROOT.write("sys/class/mdev_bus/mtty/mdev_supported_types/mtty-2/create", "no-uuid")
    assert caught.value.errno == errno.EINVAL
    with pytest.raises(BadRequest, match="'no-uuid' is no uuid"):
        mdev.create(ROOT, "mtty", "mtty-2", "no-uuid")


@pytest.mark.parametrize(
    ("parent", "type_id", "other_type"),
    [
        ("mtty", "mtty-2", "mtty-1"),
        ("mdpy", "mdpy-hd", "mdpy-vga"),
        ("mbochs", "mbochs-large", "mbochs-small"),
        (T4, "nvidia-223", "nvidia-222"),
        (T4, "nvidia-234", "nvidia-230"),
    ],
)
def test_a_full_parent_names_what_fills_it_for_any_type(
    parent: str, type_id: str, other_type: str, made: list[str]
) -> None:
    room = sysfs.available(parent, type_id)
    for _ in range(room):
        make(made, parent, type_id)
    for refused in (type_id, other_type):
        with pytest.raises(HostError) as caught:
            make(made, parent, refused)
        assert caught.value.code == "mdev-no-room"
        assert f"the card carries {room} {type_id} (" in caught.value.message
        assert all(one in caught.value.message for one in made[:room])
    assert sysfs.mdevs() == set(made[:room])

    mdev.remove(ROOT, made[0])
    make(made, parent, type_id)


def test_one_type_at_a_time_on_a_card_and_the_next_card_is_free(made: list[str]) -> None:
    one = make(made, T4, "nvidia-223")
    with pytest.raises(HostError) as caught:
        make(made, T4, "nvidia-222")
    assert (caught.value.code, caught.value.errno) == ("mdev-no-room", errno.ENOSPC)
    assert f"nvidia-222 offers 0 on {T4}: the card carries 1 nvidia-223 ({one})" in caught.value.message
    assert {one.type_id: one.available_instances for one in mdev.types(ROOT, T4)} == {
        "nvidia-222": 0,
        "nvidia-223": 7,
        "nvidia-230": 0,
        "nvidia-234": 0,
    }
    make(made, SECOND, "nvidia-222")


def test_a_type_or_a_parent_that_is_not_there_is_told_from_a_full_one() -> None:
    with pytest.raises(HostError, match=f"{T4} does not offer nvidia-999; it offers nvidia-222") as caught:
        mdev.create(ROOT, T4, "nvidia-999", str(uuid.uuid4()))
    assert caught.value.code == "mdev-type-missing"
    geforce = machine.address("geforce")
    with pytest.raises(HostError, match=f"{geforce} is no parent") as caught:
        mdev.create(ROOT, geforce, "nvidia-223", str(uuid.uuid4()))
    assert caught.value.code == "mdev-parent-missing"


def test_a_driver_that_fails_leaves_nothing_and_the_retry_works(made: list[str]) -> None:
    switch = Path("/sys/module/labgpu/parameters/fail_create")
    sysfs.write(switch, str(errno.EIO))
    try:
        with pytest.raises(HostError) as caught:
            make(made, T4, "nvidia-223")
    finally:
        sysfs.write(switch, "0")
    assert (caught.value.code, caught.value.errno) == ("mdev-refused", errno.EIO)
    assert sysfs.mdevs() == set()
    assert sysfs.available(T4, "nvidia-223") == 8
    mdev.create(ROOT, T4, "nvidia-223", made[0])


def test_a_device_that_a_process_holds_is_not_removed_and_the_process_is_named(made: list[str]) -> None:
    one = make(made, T4, "nvidia-223")
    with holding(one) as pid:
        with pytest.raises(HostError) as caught:
            mdev.remove(ROOT, one)
        assert caught.value.code == "mdev-in-use"
        assert f"pid {pid} (" in caught.value.message
        assert sysfs.mdevs() == {one}
    mdev.remove(ROOT, one)


def test_a_device_that_is_held_by_nobody_who_can_be_seen_is_not_removed_either(made: list[str]) -> None:
    one = make(made, "mtty", "mtty-1")
    with holding(one, seen=False):
        with pytest.raises(HostError) as caught:
            mdev.remove(ROOT, one)
        assert caught.value.code == "mdev-in-use"
        assert "a process that cannot be seen from here" in caught.value.message
        assert sysfs.mdevs() == {one}
    mdev.remove(ROOT, one)
    assert sysfs.mdevs() == set()


@pytest.fixture
def virtual_functions() -> Iterator[list[str]]:
    """The A40 with two virtual functions, each of which is a parent then."""
    switch = sysfs.function(A40) / "sriov_numvfs"
    sysfs.write(switch, "2")
    yield [f"{A40[:-1]}1", f"{A40[:-1]}2"]
    sysfs.write(switch, "0")


def test_virtual_functions_offer_types_of_their_card_and_its_memory_is_theirs_together(
    virtual_functions: list[str], made: list[str]
) -> None:
    first, second = virtual_functions
    assert set(virtual_functions) <= set(mdev.parents(ROOT))
    one = make(made, first, "nvidia-558")
    with pytest.raises(HostError) as caught:
        make(made, second, "nvidia-560")
    assert f"the card carries 1 nvidia-558 ({one} (on {first}))" in caught.value.message
    make(made, second, "nvidia-558")
    for uuid_ in made:
        mdev.remove(ROOT, uuid_)
