"""Who can reach ``cantle serve``, from where and how: addresses, TLS, and what is refused since it would let in everybody."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cantle import errors
from cantle.api.settings import Auth, Settings
from cantle.cli.listen import Address
from cantle.cli.tls import Tls
from cantle.conf.values import certificates

_log = logging.getLogger(__name__)


def reach_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where clients and agents are answered; the command gets them as ``reach``, a :class:`Reach`."""
    path = click.Path(path_type=Path, dir_okay=False)
    for option in (
        click.option("--agents-client-ca", type=path, help="Agents must show a certificate that these signed."),
        click.option(
            "--tls-ca",
            type=path,
            help="Who signed --tls-cert, where that is a private authority; agents that join are told it.",
        ),
        click.option("--tls-key", type=path, help="The key of --tls-cert."),
        click.option(
            "--tls-cert", type=path, help="A certificate (PEM): clients and other hosts' agents are answered over TLS."
        ),
        click.option(
            "--agents-listen",
            metavar="HOST:PORT",
            help="Where agents of other hosts are answered. [default: nowhere]",
        ),
        click.option(
            "--listen",
            default="127.0.0.1:6666",
            show_default=True,
            metavar="HOST:PORT",
            help="Where clients are answered; port 0 takes a free one.",
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a server listens, and its certificate.

    :param agents: where agents of other hosts are answered; None: nowhere.
    :param ca: certificates (PEM) of the authority behind ``tls``.
    """

    public: Address
    agents: Address | None
    tls: Tls | None
    agents_tls: Tls | None
    ca: str | None

    @classmethod
    def of(
        cls,
        listen: str,
        agents_listen: str | None,
        *,
        cert: Path | None,
        key: Path | None,
        ca: Path | None,
        client_ca: Path | None,
    ) -> Reach:
        """What the options say.

        :raises BadConfig: ``bad-listen-address``, ``tls-unusable``, ``ca-file-unusable``.
        """
        if (cert is None) != (key is None):
            raise click.UsageError("--tls-cert and --tls-key go together.")
        if cert is None and (ca is not None or client_ca is not None):
            raise click.UsageError("--tls-ca and --agents-client-ca need --tls-cert and --tls-key.")
        return cls(
            public=Address.parse(listen),
            agents=None if agents_listen is None else Address.parse(agents_listen),
            tls=None if cert is None or key is None else Tls(cert, key),
            agents_tls=None if cert is None or key is None else Tls(cert, key, client_ca),
            ca=certificates(None if ca is None else str(ca)),
        )

    def check(self, settings: Settings) -> None:
        """Refuse to let the whole network in where nobody is asked who they are, and to have the tokens of hosts read on the way.

        :raises BadConfig: ``open-to-all``, ``agents-without-tls``.
        """
        if settings.auth is Auth.NONE and not settings.allow_remote and not self.public.is_loopback:
            raise errors.BadConfig(
                "open-to-all",
                f"--listen {self.public} can be reached from other machines, and with [api] auth = none "
                "whoever reaches it is an administrator. Listen on 127.0.0.1, or ask for tokens: --auth token.",
            )
        if self.agents is not None and self.tls is None and not self.agents.is_loopback:
            raise errors.BadConfig(
                "agents-without-tls",
                f"--agents-listen {self.agents} can be reached from other machines, and without TLS whoever is "
                "on the way could read the tokens of hosts. Give --tls-cert and --tls-key.",
            )
        if settings.auth is not Auth.NONE and self.tls is None and not self.public.is_loopback:
            _log.warning("Clients send their tokens to %s without TLS: give --tls-cert and --tls-key.", self.public)


def agents_url(listening: str, address: Address) -> str:
    """The URL that agents are told: this machine's name in place of an address that means all of them."""
    if address.host in ("0.0.0.0", "::"):  # noqa: S104 - compared with
        return listening.replace(f"[{address.host}]" if ":" in address.host else address.host, socket.getfqdn(), 1)
    return listening
