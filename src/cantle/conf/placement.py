"""``[placement]``: how to reach OpenStack Placement, and what to publish there. Without a way to log in nothing is published."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from cantle.conf import devices, files, login
from cantle.conf.values import read
from cantle.errors import BadConfig
from cantle.keeper.placement import Publishing
from cantle.keeper.placement_host import Settings
from cantle.placement.overlap import NovaConf
from cantle.placement.wanted import Rules

GROUP = "placement"

OPTIONS = (
    cfg.DictOpt(
        "provider_names",
        default={},
        help="What the provider of a host's compute node is called, where it is neither the host's name nor its short or qualified form: "
        "host:provider, separated by commas.",
    ),
    cfg.StrOpt(
        "host_domain",
        default="",
        help="The domain of hosts whose agents report short names, if their compute nodes have qualified ones: example.org.",
    ),
    cfg.IntOpt(
        "vgpu_max_unit",
        default=1,
        min=1,
        help="The most vGPUs (resource class VGPU) one request group may take of one card. More than 1 only where every enabled type "
        "allows several in one guest.",
    ),
    cfg.BoolOpt(
        "pool_identical",
        default=False,
        help="Offer interchangeable whole cards of a host (same model, traits, NUMA node) as one provider, so that one request group can "
        "ask for several and the scheduler stays quick. Flavors with group_policy = isolate do not fit on a pool. To change it where hosts "
        "are published already, the login needs the role service.",
    ),
    cfg.ListOpt(
        "nova_conf",
        default=[],
        help="Copies of the compute nodes' nova.conf. Devices that its [pci] device_spec or enabled_mdev_types lend already, and mediated "
        "devices of a class that it makes itself, are held back in Placement. What Nova publishes there is seen without this.",
    ),
    cfg.IntOpt(
        "missing_grace",
        default=86400,
        min=0,
        help="Seconds for which a device that its host does not name any more stays in Placement, all of it reserved.",
    ),
)

#: Seconds for each call; a keeper's claim is much longer.
_TIMEOUT = 30


def settings(conf: cfg.ConfigOpts) -> Settings:
    """What to publish.

    :raises BadConfig: ``bad-option``, and for files in ``nova_conf`` what `cantle.conf.devices.load` raises.
    """
    group = read(conf, GROUP, OPTIONS)
    for host, provider in group.provider_names.items():
        if not host or not provider:  # Placement takes an empty name for any
            raise BadConfig("bad-option", f"[{GROUP}] provider_names: {host}:{provider} is not HOST:PROVIDER.")
    return Settings(
        rules=Rules(vgpu_max_unit=group.vgpu_max_unit),
        names=dict(group.provider_names),
        domain=group.host_domain.strip("."),
        missing_grace_s=float(group.missing_grace),
        pool_identical=group.pool_identical,
        nova=tuple(_nova(path) for path in group.nova_conf),
    )


def _nova(path: str) -> NovaConf:
    """What a nova.conf lends, read by the reader of our own sections, which are Nova's.

    :raises BadConfig: as `cantle.conf.devices.load`.
    """
    types = devices.load([path], parent_exists=lambda _name: True)
    return NovaConf(
        path,
        types.labelling.whitelist,
        frozenset(address for one in types.types for address in one.addresses),
        frozenset(one.resource_class for one in types.types),
    )


def publishing(conf: cfg.ConfigOpts) -> Publishing | None:
    """What is published and how; None where nothing is.

    :raises BadConfig: ``bad-option``, ``keystone-not-installed``.
    """
    what = settings(conf)  # also without a login, so that its mistakes are known before there is one
    made = client(conf)
    return None if made is None else Publishing(made, what)


def client(conf: cfg.ConfigOpts) -> Any:
    """A `cantle.placement.client.PlacementClient` for one thread; None where ``[placement]`` names no way to log in.

    :raises BadConfig: ``bad-option``, ``keystone-not-installed``.
    """
    adapter = login.adapter(conf, GROUP, "placement", timeout=_TIMEOUT)
    if adapter is None:
        return None
    from cantle.placement.client import PlacementClient  # noqa: PLC0415 (needs the extra)

    return PlacementClient(adapter)


def cyborg_database(path: str) -> str:
    """The URL of Cyborg's database, out of its own file.

    :raises BadConfig: ``database-not-configured``, and what `cantle.conf.files.read` raises.
    """
    url: str | None = read(files.read([path], []), "database", (cfg.StrOpt("connection", secret=True),)).connection
    if not url:
        raise BadConfig("database-not-configured", f"[database] connection is not set in {path}.")
    return url


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo.config's sample generator."""
    return [(GROUP, list(OPTIONS))]
