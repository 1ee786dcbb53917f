"""``[keeper]``: what happens without anybody asking, and when; and who is told of events."""

from __future__ import annotations

from oslo_config import cfg

from cantle.conf import nova, webhook
from cantle.conf.values import read
from cantle.keeper.courier import Receiver
from cantle.keeper.housekeeping import Ages
from cantle.keeper.webhook import WebhookReceiver
from cantle.model.event import Outlets

GROUP = "keeper"

OPTIONS = (
    cfg.IntOpt(
        "unbound_hours",
        default=24,
        min=0,
        help="Accelerator requests that were bound to nothing for so long are deleted: their caller failed before it could. "
        "0 keeps them for ever.",
    ),
    cfg.IntOpt(
        "lease_days",
        default=90,
        min=0,
        help="Leases are deleted so many days after they were released and all their units are back; the audit log keeps what was done "
        "with them. 0 keeps them for ever.",
    ),
    cfg.IntOpt(
        "event_days", default=7, min=0, help="For how long events are kept after they were delivered or given up."
    ),
    cfg.IntOpt(
        "key_hours",
        default=24,
        min=1,
        help="For how long a creating request may come again under its Idempotency-Key and is answered as it was the first time.",
    ),
    cfg.IntOpt(
        "audit_days",
        default=0,
        min=0,
        help="For how long the audit log is kept; 0 keeps it for ever. What is deleted is gone for 'cantle usage' too. Each deletion is "
        "itself recorded.",
    ),
    cfg.IntOpt(
        "expiry_warning",
        default=600,
        min=1,
        help="Seconds before its end at which a lease is announced to be ending, or as soon as it has less time left.",
    ),
    cfg.IntOpt(
        "owner_days",
        default=400,
        min=1,
        help="For how long the owner of an instance is remembered after its accelerators were taken from it: a shelved instance may "
        "rest long.",
    ),
)


def ages(conf: cfg.ConfigOpts) -> Ages:
    """How long things are kept.

    :raises BadConfig: ``bad-option``.
    """
    group = read(conf, GROUP, OPTIONS)
    return Ages(
        unbound_hours=group.unbound_hours,
        lease_days=group.lease_days,
        event_days=group.event_days,
        key_hours=group.key_hours,
        owner_days=group.owner_days,
        audit_days=group.audit_days,
        expiry_warning=group.expiry_warning,
    )


def outlets(conf: cfg.ConfigOpts) -> Outlets:
    """Who is told of events.

    :raises BadConfig: as `cantle.conf.nova.waits_s` and `cantle.conf.webhook.target`.
    """
    return Outlets(nova_waits=nova.waits_s(conf), webhook=webhook.target(conf) is not None)


def receivers(conf: cfg.ConfigOpts) -> list[Receiver]:
    """Those who are told.

    :raises BadConfig: as `cantle.conf.nova.receiver` and `cantle.conf.webhook.target`.
    """
    target = webhook.target(conf)
    found: list[Receiver] = [] if target is None else [WebhookReceiver(target)]
    compute: Receiver | None = nova.receiver(conf)
    return found if compute is None else [*found, compute]


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo.config's sample generator."""
    return [(GROUP, list(OPTIONS))]
