"""Flavors' extra specs as request groups: whatever way of asking for accelerators Nova and the seeds know (spec S2.1, S3.3, S4.4;
reference sections 1.3, 2.6, 3.1, 4.2). All forms combine.

=================================  ========================================================================================
key                                what it asks for
=================================  ========================================================================================
``accel:device_profile``           the groups of that device profile
``pci_passthrough:alias``          ``a1:2, b1:1``: devices of PCI aliases
``resources[N]:CLASS``             units of a resource class, all of one provider for a numbered group
``trait[N]:NAME``                  ``required`` or ``forbidden``; ``trait[N]:in:A,B = required`` any of them
``group_policy``                   ``isolate``: every numbered group from another provider; ``none``
``hw:pci_numa_affinity_policy``    ``required``, ``socket``, ``legacy``, ``preferred``: over that of the aliases
``gpus``                           so many whole GPUs, each another card (the seed's)
any other key without a scope,     a label that each card must have: ``gpu_arch = s== fermi``, ``hypervisor = s== LXC``
``capabilities:KEY``,
``aggregate_instance_extra_specs``
=================================  ========================================================================================
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cantle.errors import BadRequest
from cantle.model import request, requirement
from cantle.model.alias import Aliases
from cantle.model.numa import NumaPolicy
from cantle.model.profile import MAX_UNITS
from cantle.model.request import Request, RequestGroup, words
from cantle.model.requirement import Requirement

PROFILE = "accel:device_profile"
#: What S3 calls the same key in one place; Nova knows the other alone.
_PROFILE_NAME = "accel:device_profile_name"
ALIAS = "pci_passthrough:alias"
NUMA = "hw:pci_numa_affinity_policy"
#: The same as a property of images, which Cantle has none of: in a flavor it would be a label that no card has.
IMAGE_NUMA = "hw_pci_numa_affinity_policy"
POLICY = "group_policy"
GPUS = "gpus"

#: What ``gpus`` counts: cards lent whole.
WHOLE_GPU = "PGPU"

#: Nova's pattern: the suffix of a numbered group, and the rest.
_NUMBERED = re.compile(r"(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)")
_NAME = re.compile(r"[A-Z0-9_]{1,255}")

#: Standard resource classes that are no accelerators (os-resource-classes): Nova's business.
_NO_DEVICES = frozenset(
    {
        *("VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "MEM_ENCRYPTION_CONTEXT", "IPV4_ADDRESS", "VGPU_DISPLAY_HEAD"),
        *("NUMA_SOCKET", "NUMA_CORE", "NUMA_THREAD", "NUMA_MEMORY_MB"),
        *("NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC", "NET_PACKET_RATE_KILOPACKET_PER_SEC"),
        *("NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC", "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC"),
    }
)

#: Scopes whose keys are requirements on labels, as Nova's filters have them on hosts and aggregates.
_LABEL_SCOPES = ("capabilities:", "aggregate_instance_extra_specs:")

#: The words of a flavor that ask for something, for the message to one that does not.
_WAYS = f"{PROFILE}, {ALIAS}, resources:CLASS or {GPUS}"


@dataclass(slots=True)
class _Suffixed:
    """What the keys with one suffix say."""

    amounts: dict[str, int] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    forbidden: set[str] = field(default_factory=set)
    any_of: list[frozenset[str]] = field(default_factory=list)
    trait_keys: list[str] = field(default_factory=list)


def profile_named(extra_specs: Mapping[str, str]) -> str | None:
    """The device profile that a flavor names.

    :raises BadRequest: ``bad-extra-spec``: it names two.
    """
    names = {extra_specs[key].strip() for key in (PROFILE, _PROFILE_NAME) if key in extra_specs}
    if len(names) > 1:
        raise BadRequest("bad-extra-spec", f"{PROFILE} and {_PROFILE_NAME} name two device profiles; keep the first.")
    return names.pop() if names else None


def read(extra_specs: Mapping[str, str], aliases: Aliases, profile_groups: Sequence[Mapping[str, str]] = ()) -> Request:
    """The request that extra specs make.

    :param profile_groups: the groups of `profile_named`.
    :raises BadRequest: ``bad-extra-spec``, naming the key; ``alias-not-defined``; ``bad-profile-groups``.
    """
    if IMAGE_NUMA in extra_specs:
        raise BadRequest("bad-extra-spec", f"{IMAGE_NUMA} is a property of images; the key of a flavor is {NUMA}.")
    suffixed: dict[str, _Suffixed] = defaultdict(_Suffixed)
    labels: list[Requirement] = []
    ignored: list[str] = []
    for key, text in extra_specs.items():
        if (match := _NUMBERED.fullmatch(key)) is not None:
            kind, suffix, name = match.groups(default="")
            if not _take(suffixed[suffix], kind, key, name.strip(), text.strip()):
                ignored.append(key)
        elif (label := _label(key)) is not None:
            labels.append(requirement.parse(label, text))
        elif key.startswith("accel:") and key not in (PROFILE, _PROFILE_NAME):
            raise BadRequest("bad-extra-spec", f"{key} is no key of a flavor; there is {PROFILE}.")
        elif key not in (PROFILE, _PROFILE_NAME, ALIAS, NUMA, POLICY, GPUS):
            ignored.append(key)
    groups = list(request.of_profile(profile_groups).groups)
    groups = [replace(group, name=f"device_profile_{number}") for number, group in enumerate(groups)]
    for suffix in sorted(suffixed):
        groups += _groups(suffix, suffixed[suffix], ignored)
    if ALIAS in extra_specs:
        groups += _of_aliases(extra_specs[ALIAS], aliases)
    if GPUS in extra_specs:
        count = requirement.amount(GPUS, extra_specs[GPUS])
        groups.append(RequestGroup(GPUS, ((WHOLE_GPU, count),), together=False, apart=True))
    return _whole(extra_specs, groups, labels, ignored, sum(bool(one.amounts) for key, one in suffixed.items() if key))


def _whole(
    extra_specs: Mapping[str, str],
    groups: Sequence[RequestGroup],
    labels: Sequence[Requirement],
    ignored: Sequence[str],
    numbered: int,
) -> Request:
    if not groups:
        raise BadRequest("bad-extra-spec", f"These extra specs ask for no accelerator; add one of {_WAYS}.")
    numa = _numa(extra_specs.get(NUMA))
    if labels or numa is not None:
        groups = [
            replace(group, labels=group.labels + tuple(labels), numa=numa if numa is not None else group.numa)
            for group in groups
        ]
    made = Request(tuple(groups), _isolate(extra_specs.get(POLICY), numbered), tuple(sorted(ignored)))
    if made.units > MAX_UNITS:
        raise BadRequest(
            "bad-extra-spec", f"The extra specs ask for {made.units} accelerators; at most {MAX_UNITS} are possible."
        )
    return made


def _label(key: str) -> str | None:
    for scope in _LABEL_SCOPES:
        if key.startswith(scope) and key != scope:
            return key.removeprefix(scope)
    return key if ":" not in key and key not in (POLICY, GPUS) else None


def _take(into: _Suffixed, kind: str, key: str, name: str, text: str) -> bool:
    """Read one ``resources`` or ``trait`` key; False for a class that is no accelerator."""
    if kind == "trait":
        _trait(into, key, name, text)
        return True
    if _NAME.fullmatch(name) is None:
        raise BadRequest("bad-extra-spec", f"{key}: {name!r} is no resource class; write it in capitals, such as VGPU.")
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise BadRequest("bad-extra-spec", f"{key} = {text!r}: give a whole number.")
    if name in _NO_DEVICES:
        return False
    if int(text):  # 0 takes a resource out of a request, in Nova
        into.amounts[name] = int(text)
    return True


def _trait(into: _Suffixed, key: str, name: str, text: str) -> None:
    names = words(name.removeprefix("in:")) if name.startswith("in:") else (name,)
    for one in names:
        if _NAME.fullmatch(one) is None:
            raise BadRequest(
                "bad-extra-spec", f"{key}: {one!r} is no trait; write it in capitals, such as CUSTOM_FAST."
            )
    into.trait_keys.append(key)
    if text == "forbidden" and names:
        into.forbidden.update(names)
    elif text == "required" and name.startswith("in:") and names:
        into.any_of.append(frozenset(names))
    elif text == "required" and names:
        into.required.update(names)
    else:
        raise BadRequest("bad-extra-spec", f"{key} = {text!r}: say 'required' or 'forbidden'.")


def _groups(suffix: str, said: _Suffixed, ignored: list[str]) -> list[RequestGroup]:
    """The groups of one suffix. Without one, each class may come from another provider; traits without classes are the host's then."""
    if not said.amounts:
        if suffix and said.trait_keys:
            raise BadRequest(
                "bad-extra-spec",
                f"{said.trait_keys[0]} stands alone; say with resources{suffix}:CLASS what has this trait.",
            )
        ignored += said.trait_keys
        return []
    amounts = tuple(said.amounts.items())
    parts = [amounts] if suffix else [(one,) for one in amounts]
    return [
        RequestGroup(
            name=f"resources{suffix}" if suffix else f"resources:{part[0][0]}",
            amounts=part,
            required=frozenset(said.required),
            forbidden=frozenset(said.forbidden),
            any_of=tuple(said.any_of),
        )
        for part in parts
    ]


def _of_aliases(text: str, aliases: Aliases) -> list[RequestGroup]:
    groups = []
    for part in text.split(","):
        name, colon, count = (piece.strip() for piece in part.partition(":"))
        if not colon or not name or not (count.isascii() and count.isdigit() and len(count) <= 9) or int(count) == 0:
            raise BadRequest("bad-extra-spec", f"{ALIAS} = {text!r}: {part.strip()!r} is not NAME:COUNT, such as a1:2.")
        alias = aliases.get(name)
        specs = tuple(tuple(sorted(spec.items())) for spec in alias.specs)
        groups.append(
            RequestGroup(f"alias {name}", count=int(count), specs=specs, together=False, numa=alias.numa_policy)
        )
    return groups


def _numa(text: str | None) -> NumaPolicy | None:
    if text is None:
        return None
    if text not in tuple(NumaPolicy):
        raise BadRequest("bad-extra-spec", f"{NUMA} = {text!r}: say one of {', '.join(NumaPolicy)}.")
    return NumaPolicy(text)


def _isolate(text: str | None, numbered: int) -> bool:
    if text is None and numbered > 1:
        raise BadRequest(
            "bad-extra-spec",
            f"{POLICY} is missing: with {numbered} numbered groups say 'isolate' or 'none', as Placement demands.",
        )
    if text not in (None, "isolate", "none"):
        raise BadRequest("bad-extra-spec", f"{POLICY} = {text!r}: say 'isolate' or 'none'.")
    return text == "isolate"
