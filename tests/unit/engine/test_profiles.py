"""Device profiles through the engine, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from tests.unit.engine.cloud import ADMIN, make_profile

from cantle.engine.arq import create_arqs, delete_arqs
from cantle.engine.profile import create_profile, delete_profiles, get_profile, list_profiles
from cantle.errors import BadRequest, CantleError, Conflict, NotFound
from cantle.model.page import Page
from cantle.store import tables
from cantle.store.database import Database

GROUPS = [{"resources:VGPU": "1", "trait:CUSTOM_A": "required"}]


def test_a_profile_is_found_by_uuid_in_any_spelling_and_by_name(db: Database) -> None:
    made = create_profile(db, ADMIN, name="gold", groups=GROUPS, description="for the lab")
    for ref in (made.uuid, made.uuid.upper(), made.uuid.replace("-", ""), "gold"):
        assert get_profile(db, ref) == made
    assert made.groups == ({"resources:VGPU": "1", "trait:CUSTOM_A": "required"},)
    assert made.description == "for the lab"
    assert made.updated_at is None


def test_names_differ_in_case(db: Database) -> None:
    make_profile(db, "gold")
    make_profile(db, "Gold")
    assert [profile.name for profile in list_profiles(db, names=["Gold", "silver"])] == ["Gold"]


def test_a_profile_named_like_the_uuid_of_another_does_not_hide_it(db: Database) -> None:
    first = create_profile(db, ADMIN, name="first", groups=GROUPS)
    create_profile(db, ADMIN, name=first.uuid, groups=GROUPS)
    assert get_profile(db, first.uuid).name == "first"


@pytest.mark.parametrize("spelled", [str, str.upper, lambda uuid: uuid.replace("-", "")])
def test_deleting_a_profile_by_its_uuid_leaves_the_one_that_is_named_so(
    db: Database, spelled: Callable[[str], str]
) -> None:
    first = create_profile(db, ADMIN, name="first", groups=GROUPS)
    named = create_profile(db, ADMIN, name=spelled(first.uuid), groups=GROUPS)
    create_arqs(db, ADMIN, named.name)  # what is in use is not meant either
    delete_profiles(db, ADMIN, [named.name])
    assert list_profiles(db) == [named]


def test_a_second_profile_of_a_name_or_uuid_is_refused(db: Database) -> None:
    first = create_profile(db, ADMIN, name="gold", groups=GROUPS)
    with pytest.raises(Conflict) as name:
        create_profile(db, ADMIN, name="gold", groups=GROUPS)
    assert name.value.code == "profile-name-taken"
    with pytest.raises(Conflict) as uuid:
        create_profile(db, ADMIN, name="silver", groups=GROUPS, uuid=first.uuid.upper())
    assert uuid.value.code == "profile-uuid-taken"
    assert len(list_profiles(db)) == 1


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"name": ""}, "bad-profile-name"),
        ({"name": None}, "bad-profile-name"),
        ({"name": 7}, "bad-profile-name"),
        ({"name": "nl\n"}, "bad-profile-name"),
        ({"name": "x" * 256}, "bad-profile-name"),
        ({"name": "späth"}, "bad-profile-name"),
        ({"groups": None}, "bad-profile-groups"),
        ({"groups": []}, "bad-profile-groups"),
        ({"uuid": "no-uuid"}, "bad-uuid"),
        ({"uuid": 5}, "bad-uuid"),
        ({"description": 5}, "bad-profile-description"),
        ({"description": "x" * 2001}, "bad-profile-description"),
    ],
)
def test_a_malformed_profile_is_refused_and_leaves_nothing(db: Database, values: dict[str, Any], code: str) -> None:
    with pytest.raises(BadRequest) as caught:
        create_profile(db, ADMIN, **{"name": "gold", "groups": GROUPS, **values})
    assert caught.value.code == code
    assert list_profiles(db) == []


@pytest.mark.parametrize(
    ("key", "value", "code", "says"),
    [
        (
            "accel:packing",
            "sideways",
            "bad-profile-groups",
            "Group 1: accel:packing is 'sideways'; say one of pack, spread.",
        ),
        ("accel: numa_policy", "near", "bad-profile-groups", "say one of required, socket, legacy, preferred"),
        ("accel:anti_affinity", "host", "bad-profile-groups", "say one of card, none"),
        ("accel:label:", "fermi", "bad-profile-groups", "accel:label: names no label"),
        ("accel:label:rack", "< 3", "bad-extra-spec", "accel:label:rack = '< 3': '<' is no operator"),
        ("accel:label:rack", ">= r7", "bad-extra-spec", "accel:label:rack = '>= r7': '>=' compares numbers"),
        ("accel:label:rack", "", "bad-extra-spec", "accel:label:rack is empty"),
    ],
)
def test_a_key_of_ours_with_a_value_that_means_nothing_is_refused_when_the_profile_is_made_not_at_the_lease(
    db: Database, key: str, value: str, code: str, says: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        create_profile(db, ADMIN, name="gold", groups=[*GROUPS, {"resources:PGPU": "1", key: value}])
    assert caught.value.code == code
    assert says in caught.value.message
    assert list_profiles(db) == []


def test_accel_keys_that_are_not_ours_say_what_they_like(db: Database) -> None:
    groups = [
        {"resources:FPGA": "1", "accel:bitstream_id": "b" * 32, "accel:packing_list": "", "accel:Packing": "sideways"}
    ]
    assert create_profile(db, ADMIN, name="fpga", groups=groups).groups == tuple(groups)


def test_a_profile_of_before_with_a_wrong_value_is_shown_used_by_nova_and_deleted(db: Database) -> None:
    made = create_profile(db, ADMIN, name="gold", groups=GROUPS)
    odd = {**GROUPS[0], "accel:packing": "sideways"}
    with db.write() as connection:
        connection.execute(tables.device_profiles.update().values(groups=[odd]))
    assert get_profile(db, "gold").groups == (odd,)
    assert [profile.uuid for profile in list_profiles(db)] == [made.uuid]
    (arq,) = create_arqs(db, ADMIN, "gold")
    delete_arqs(db, ADMIN, [arq.uuid])
    delete_profiles(db, ADMIN, ["gold"])
    assert list_profiles(db) == []


def test_profiles_are_deleted_all_or_none(db: Database) -> None:
    make_profile(db, "a")
    make_profile(db, "b")
    with pytest.raises(NotFound) as caught:
        delete_profiles(db, ADMIN, ["a", "absent", str(uuid4())])
    assert caught.value.code == "profile-not-found"
    assert caught.value.details["refs"][0] == "absent"  # type: ignore[index]
    assert len(list_profiles(db)) == 2
    delete_profiles(db, ADMIN, ["a", get_profile(db, "b").uuid])
    assert list_profiles(db) == []


def test_a_profile_in_use_stays_until_its_requests_are_gone(db: Database) -> None:
    make_profile(db, "gold")
    (arq,) = create_arqs(db, ADMIN, "gold")
    with pytest.raises(Conflict) as caught:
        delete_profiles(db, ADMIN, ["gold"])
    assert caught.value.code == "profile-in-use"
    assert "gold" in caught.value.message
    delete_arqs(db, ADMIN, [arq.uuid])
    delete_profiles(db, ADMIN, ["gold"])


def test_unknown_profiles_are_not_found_by_name_nor_uuid_and_left_out_of_lists(db: Database) -> None:
    for ref in ("absent", str(uuid4()), "", "' OR 1=1"):
        with pytest.raises(NotFound) as caught:
            get_profile(db, ref)
        assert caught.value.code == "profile-not-found"
    assert list_profiles(db, names=["absent", ""]) == []


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("key", ["created_at", "name", "uuid"])
def test_a_walk_page_by_page_sees_each_profile_once_in_order(db: Database, key: str, direction: str) -> None:
    for name in ("c", "a", "e", "b", "d"):
        make_profile(db, name)
    whole = [profile.uuid for profile in list_profiles(db, page=Page(sort_key=key, sort_dir=direction))]
    assert whole == [
        profile.uuid
        for profile in sorted(list_profiles(db), key=lambda one: getattr(one, key), reverse=direction == "desc")
    ]
    walked: list[str] = []
    while part := list_profiles(
        db, page=Page(limit=2, marker=walked[-1] if walked else None, sort_key=key, sort_dir=direction)
    ):
        walked += [profile.uuid for profile in part]
    assert walked == whole


def test_pages_that_cannot_be_are_refused(db: Database) -> None:
    for page, code in (
        (Page(sort_key="groups"), "bad-sort-key"),
        (Page(marker=str(uuid4())), "marker-not-found"),
        (Page(marker="no-uuid"), "marker-not-found"),
    ):
        with pytest.raises(BadRequest) as caught:
            list_profiles(db, page=page)
        assert caught.value.code == code
    for wrong in ({"limit": 0}, {"limit": -1}, {"limit": 10_001}, {"sort_dir": "up"}):
        with pytest.raises(CantleError) as refused:
            Page(**wrong)
        assert refused.value.code == "bad-page"
