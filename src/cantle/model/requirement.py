"""What an extra spec asks of a fact: Nova's operators, all of them (spec S2.1; reference section 4.2).

The first word of a requirement is its operator, the rest its operands. Where the first word is no operator the fact must equal the whole
text.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

from cantle.errors import BadRequest

_NUMBERS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.ge,  # "= 2" is "at least 2"
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
}

#: Every operator there is.
OPERATORS = frozenset(_NUMBERS) | frozenset(_TEXTS) | {"<in>", "<all-in>", "<or>"}

#: What people write in vain: Nova takes such a text for a value.
_MISTAKEN = {"<": "s<", ">": "s>", "===": "==", "<all-of>": "<all-in>", "or": "<or>", "in": "<in>"}


@dataclass(frozen=True, slots=True)
class Requirement:
    """A fact's name and what it must be. Make it with `parse`, which refuses what could never hold."""

    key: str
    text: str

    def holds(self, value: str | None) -> bool:
        """Whether that value will do."""
        return holds(value, self.text)

    def __str__(self) -> str:
        return f"{self.key} {self.text}"


def parse(key: str, text: str, *, written: str | None = None) -> Requirement:
    """A requirement that can hold.

    :param written: how the key was written, for messages, where that is more than the fact's name.
    :raises BadRequest: ``bad-extra-spec``, naming the key: an operator without operand, a numeric one with something else.
    """
    words, named = text.split(), written or key
    if not words:
        raise BadRequest(
            "bad-extra-spec", f"{named} is empty; give a value, or an operator and a value such as 's== fermi'."
        )
    word, operands = words[0], words[1:]
    if word in _MISTAKEN and operands:
        raise BadRequest(
            "bad-extra-spec",
            f"{named} = {text!r}: {word!r} is no operator of extra specs; did you mean {_MISTAKEN[word]!r}? There are "
            f"{', '.join(sorted(OPERATORS))}.",
        )
    if word in OPERATORS and not operands:
        raise BadRequest("bad-extra-spec", f"{named} = {text!r}: after {word!r} a value is missing.")
    if word in _NUMBERS and _number(operands[0]) is None:
        raise BadRequest(
            "bad-extra-spec",
            f"{named} = {text!r}: {word!r} compares numbers, and {operands[0]!r} is none; for words use 's{word}'.",
        )
    return Requirement(key, text)


def holds(value: str | None, text: str) -> bool:
    """Whether a fact's value is as the text asks. A value that is no number meets no numeric requirement (Nova fails with an error)."""
    words = text.split()
    word, operands = (words[0], words[1:]) if words else ("", [])
    if word not in OPERATORS:
        return value == text
    return value is not None and bool(operands) and _compare(value, word, operands)


def _compare(value: str, word: str, operands: list[str]) -> bool:
    match word:
        case "<or>":
            return value in operands[::2]
        case "<all-in>":
            return all(operand in value for operand in operands)
        case "<in>":
            return operands[0] in value
        case _ if word in _TEXTS:
            return _TEXTS[word](value, operands[0])
    left, right = _number(value), _number(operands[0])
    return left is not None and right is not None and _NUMBERS[word](left, right)


def amount(key: str, text: str) -> int:
    """How many are asked for: ``2``, ``= 2``, ``== 2``, ``>= 2`` and ``s== 2`` are two.

    :raises BadRequest: ``bad-extra-spec``, naming the key.
    """
    words = text.split()
    if len(words) == 2 and words[0] in ("=", "==", ">=", "s=="):
        words = words[1:]
    if (
        len(words) != 1
        or not (words[0].isascii() and words[0].isdigit())
        or not 1 <= len(words[0]) <= 9
        or int(words[0]) < 1
    ):
        raise BadRequest("bad-extra-spec", f"{key} = {text!r}: give a whole number from 1 on, such as '2' or '= 2'.")
    return int(words[0])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
