"""Why a host cannot serve a request, in words for the person who asked."""

from __future__ import annotations

from collections.abc import Sequence

from cantle.scheduling.offer import Ask, Offer, mismatch


def why_not(asks: Sequence[Ask], offers: Sequence[Offer]) -> str:
    """The first thing that is wrong with one host's offers; that they fit one by one but not together if nothing is."""
    for ask in asks:
        if (reason := _why_not_one(ask, offers)) is not None:
            return reason
    return "each group fits, but not all of them together"


def _why_not_one(ask: Ask, offers: Sequence[Offer]) -> str | None:
    if len(ask.amounts) > 1:
        classes = " and ".join(resource_class for resource_class, _ in ask.amounts)
        return f"group {ask.group_id} wants {classes} from one provider, and a provider has one class"
    resource_class, amount = ask.amounts[0]
    of_class = [offer for offer in offers if offer.resource_class == resource_class]
    if not of_class:
        return f"no {resource_class}"
    suitable = [offer for offer in of_class if mismatch(ask, offer) is None]
    if not suitable:
        return "; ".join(sorted({reason for offer in of_class if (reason := mismatch(ask, offer)) is not None})[:3])
    serving = [offer for offer in suitable if offer.out_of_service is None]
    if not serving:
        return "; ".join(sorted({offer.out_of_service for offer in suitable if offer.out_of_service is not None})[:3])
    best = max(offer.free for offer in serving)
    if best < amount:
        return f"{amount} {resource_class} of one provider wanted, at most {best} free"
    return None
