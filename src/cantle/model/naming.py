"""One normaliser for every name that Placement sees: resource classes and traits (spec S0.5, S1.2).

A trait of a card reads ``CUSTOM_<VENDOR>_<PRODUCT>``, of a mediated type ``CUSTOM_<VENDOR>_<PRODUCT>_<TYPE>``:

=============  ======================================================  =================================================
part           PCI function                                            parent that is no PCI function
=============  ======================================================  =================================================
``VENDOR``     the maker's name, else its four hex digits (``1B36``)   ``MDEV``
``PRODUCT``    the four hex digits of the device id (``1EB8``)         the kernel's driver word of its types (``MTTY``)
``TYPE``       :func:`mdev_type_words` of the type's name              the same
=============  ======================================================  =================================================

So ``GRID T4-2B`` on 10de:1eb8 gives ``CUSTOM_NVIDIA_1EB8_T4_2B``, and mtty's ``Single port serial`` gives
``CUSTOM_MDEV_MTTY_SINGLE_PORT_SERIAL`` on every host, whatever its parents are called there.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping

from cantle.model.classify import vendor_word

#: Placement's limit for the name of a trait or resource class.
MAX_NAME = 255

#: On every provider that is ours (os-traits).
OWNER_TRAIT = "OWNER_CYBORG"

_PREFIX = "CUSTOM_"
_OTHERS = re.compile(r"[^0-9A-Za-z]+")

#: Vendor word of parents that are no PCI function.
NO_PCI_VENDOR = "MDEV"

# NVIDIA's grammar for the last word of a type's name (vGPU User Guide, "Virtual GPU Types"): <GPU>-<GB><series>, for MIG-backed types
# <GPU>-<slices>-<GB><series>, with 4 for four 4K displays and ME, NOME, MEALL, GFX for media and graphics extensions; and the
# names of MIG profiles themselves, 1g.18gb+me.
_NVIDIA_VGPU = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*-[0-9]+[ABCQ]4?(NOME|MEALL|ME|GFX)*")
_NVIDIA_MIG = re.compile(r"([0-9]+c\.)?[0-9]+g\.[0-9]+gb([+-][a-z0-9.]+)*")


def placement_name(text: str) -> str:
    """``text`` in Placement's alphabet ``[A-Z0-9_]``, as Nova normalises: each run of other characters becomes one ``_``."""
    return _OTHERS.sub("_", text).upper()


def custom(*words: str) -> str:
    """``CUSTOM_<WORD>_<WORD>…``: always a valid name of at most 255 characters.

    What would be longer is cut and ends in a digest of the whole, so that two long names stay two.
    """
    name = _PREFIX + "_".join(placement_name(word) for word in words)
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 17]}_{_digest(*words)}"


def mdev_type_words(name: str | None, type_id: str) -> str:
    """What of a type's ``name`` file goes into a trait (spec S0.5).

    The last word, where it follows NVIDIA's grammar: the words before it are brands (``GRID``, ``NVIDIA RTX Pro 6000 Blackwell``). Of any
    other driver the whole name: mtty's ``Single port serial`` and ``Dual port serial`` differ in the first word. Without a name, the id.
    """
    words = (name or "").split()
    if not words:
        return type_id
    if _NVIDIA_VGPU.fullmatch(words[-1]) or _NVIDIA_MIG.fullmatch(words[-1]):
        return words[-1]
    return " ".join(words)


def mdev_type_traits(vendor: str, product: str, names: Mapping[str, str | None]) -> dict[str, str]:
    """The trait of each type that one parent offers, by type id: valid, and distinct whatever the names are.

    Where two types would get the same trait, the type id is added to all of those; where that is not enough (ids ``a-1`` and
    ``a_1``), a digest.

    :param names: text of the ``name`` file by type id, None where there is none.
    """
    spellings = {
        type_id: (
            custom(vendor, product, mdev_type_words(name, type_id)),
            custom(vendor, product, mdev_type_words(name, type_id), type_id),
            custom(vendor, product, mdev_type_words(name, type_id), type_id, _digest(type_id)),
        )
        for type_id, name in names.items()
    }
    longest = 2
    chosen = dict.fromkeys(names, 0)
    while True:
        traits = {type_id: spellings[type_id][chosen[type_id]] for type_id in names}
        count = Counter(traits.values())
        clashing = [one for one in names if count[traits[one]] > 1 and chosen[one] < longest]
        if not clashing:
            return traits
        for type_id in clashing:
            chosen[type_id] += 1


def mdev_type_facts(name: str | None) -> tuple[str, ...]:
    """Memory and series of one of NVIDIA's types as traits, read off its name (vGPU User Guide): ``GRID T4-2B`` gives
    ``CUSTOM_VGPU_MEMORY_2GB`` and ``CUSTOM_VGPU_SERIES_B``, a MIG profile ``1g.18gb`` its memory alone, any other name nothing."""
    last = (name or "").split()[-1:]
    for word in last:
        if _NVIDIA_VGPU.fullmatch(word):
            size = word.rpartition("-")[2]
            gigabytes = re.match("[0-9]+", size)
            assert gigabytes is not None  # noqa: S101 - the grammar has it
            return custom("VGPU", "MEMORY", f"{gigabytes[0]}GB"), custom("VGPU", "SERIES", size[gigabytes.end()])
        if _NVIDIA_MIG.fullmatch(word):
            return (custom("VGPU", "MEMORY", word.partition("g.")[2].partition("gb")[0] + "GB"),)
    return ()


def driver_word(type_id: str) -> str:
    """The kernel's driver word of a type id: what stands before the first ``-`` (``mtty`` of ``mtty-2``, as the mdev core builds it)."""
    return type_id.partition("-")[0]


def device_traits(vendor_id: str, product_id: str) -> tuple[str, ...]:
    """Traits of a card that is lent whole: the owner's and ``CUSTOM_<VENDOR>_<PRODUCT_ID>``."""
    return OWNER_TRAIT, custom(vendor_word(vendor_id), product_id)


def mdev_traits(vendor_id: str, product_id: str, type_id: str, names: Mapping[str, str | None]) -> tuple[str, ...]:
    """Traits of a parent that lends one type: the owner's and the type's own.

    :param vendor_id: "" for a parent that is no PCI function; ``product_id`` is then not looked at.
    :param names: all types the parent offers, ``type_id`` among them.
    """
    if vendor_id:
        vendor, product = vendor_word(vendor_id), product_id
    else:
        vendor, product = NO_PCI_VENDOR, driver_word(type_id)
    return OWNER_TRAIT, mdev_type_traits(vendor, product, names)[type_id]


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16].upper()
