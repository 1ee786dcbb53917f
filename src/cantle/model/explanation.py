"""The answer to "why not?": reasons, counted."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Reasons of a group that are told in one sentence.
TOLD = 4


@dataclass(frozen=True, slots=True)
class Reason:
    """Why so many cards, or hosts, were left out.

    :param code: kebab-case and stable.
    :param what: what is so of them, to follow "12 cards".
    :param mend: what would change it.
    :param cards: 0 where the reason is of whole hosts.
    :param examples: some of them: host name and address.
    """

    code: str
    what: str
    mend: str
    cards: int
    hosts: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group of a request: how many cards would do for it by themselves, and why the others would not."""

    name: str
    units: int
    suitable: int
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was looked at, and why it does not do.

    :param hosts: hosts that have cards of a right kind; ``cards``: all cards there are.
    :param fit_count: hosts that could serve the request now; ``fitting`` names the first hundred.
    :param together: why hosts do not do though each group finds a card on them.
    """

    hosts: int
    cards: int
    fit_count: int
    fitting: tuple[str, ...]
    groups: tuple[GroupView, ...]
    together: tuple[Reason, ...]

    def without_names(self) -> Explanation:
        """The same in numbers alone: no host and no card is named."""
        groups = tuple(replace(group, reasons=_unnamed(group.reasons)) for group in self.groups)
        return replace(self, fitting=(), groups=groups, together=_unnamed(self.together))

    @property
    def summary(self) -> str:
        """In one sentence, the commonest reasons first."""
        if self.fit_count:
            named = f": {', '.join(self.fitting[:5])}" if self.fitting else ""
            return f"{_many(self.fit_count, 'host')} can serve it now{named}"
        if not self.cards:
            return "no host has reported an accelerator"
        parts = [_told(reason) for reason in self.together[:TOLD]]
        for group in self.groups:
            if group.suitable == 0 or not self.together:
                told = "; ".join(_told(reason) for reason in group.reasons[:TOLD])
                more = len(group.reasons) - TOLD
                parts.append(f"{group.name}: {told}" + (f"; and {more} other reasons" if more > 0 else ""))
        return "; ".join(dict.fromkeys(parts))


def _unnamed(reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    return tuple(replace(reason, examples=()) for reason in reasons)


def _told(reason: Reason) -> str:
    many = _many(reason.cards, "card") if reason.cards else _many(reason.hosts, "host")
    which = f" ({reason.examples[0]})" if max(reason.cards, reason.hosts) == 1 and reason.examples else ""
    one = max(reason.cards, reason.hosts if not reason.cards else 0) == 1
    return f"{many}{which}: {reason.what if one else _plural(reason.what)}"


def _plural(what: str) -> str:
    """What is so of one card, said of several: ``is lent`` becomes ``are lent``."""
    first, space, rest = what.partition(" ")
    return _VERBS.get(first, first) + space + rest.replace(" and offers ", " and offer ", 1)


_VERBS = {"is": "are", "has": "have", "lacks": "lack", "offers": "offer", "belongs": "belong"}


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
