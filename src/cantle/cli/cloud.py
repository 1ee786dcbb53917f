"""A cloud with Keystone, as OpenStack's own commands find it: ``clouds.yaml``, ``secure.yaml``, ``OS_*``. Loaded only when one is named.

openstacksdk reads these, so that what works for ``openstack`` works here; its session renews the token when it runs out.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cantle import __version__, errors

#: As the catalog calls the accelerator API.
SERVICE = "accelerator"


@dataclass(frozen=True, slots=True)
class Cloud:
    """Where the service is, and what proves to it who asks.

    :param url: the root of both APIs, without ``/v2``.
    :param proof: headers, with a token that is good now.
    :param verify: False where the cloud's own entry says that nobody need vouch for its servers (``verify: false``).
    """

    url: str
    proof: Callable[[], Mapping[str, str]]
    ca_file: str | None = None
    verify: bool = True


def find(name: str | None, url: str | None = None) -> Cloud:
    """The cloud of that name in ``clouds.yaml``; None: the one that the environment names.

    :param url: the service's, where it is known; else it is looked up in the catalog.
    :raises BadConfig: ``cloud-client-missing``, ``cloud-not-usable``, ``no-accelerator-service``.
    """
    try:
        from keystoneauth1.exceptions import ClientException  # noqa: PLC0415 - an extra
        from openstack.config import OpenStackConfig  # noqa: PLC0415
        from openstack.exceptions import ConfigException  # noqa: PLC0415
    except ImportError as error:
        raise errors.BadConfig(
            "cloud-client-missing",
            f"Clouds with Keystone need openstacksdk: pip install 'cantle[client]' ({error}). "
            "Without it, use a token of Cantle's own (CANTLE_TOKEN), or unset OS_CLOUD and OS_AUTH_URL.",
        ) from error
    try:
        with warnings.catch_warnings(action="ignore"):  # of the SDK's own parts, to its developers
            region = OpenStackConfig(app_name="cantle", app_version=__version__).get_one(cloud=name or None)
            session = region.get_session()
            verify, _ = region.get_requests_verify_args()
    except (ConfigException, ClientException, OSError, ValueError) as error:
        raise errors.BadConfig("cloud-not-usable", f"The cloud {_shown(name)} cannot be used: {error}") from error
    asking = _Asking(name)

    def proof() -> Mapping[str, str]:
        return asking.ask(session.get_auth_headers) or {}

    found = url or asking.ask(lambda: _endpoint(region, session))
    root = found.rstrip("/").removesuffix("/v2")
    return Cloud(root, proof, verify if isinstance(verify, str) else None, verify=verify is not False)


def _endpoint(region: Any, session: Any) -> str:
    override = region.get_endpoint(SERVICE)
    if override:
        return str(override)
    region_name, interface = region.get_region_name(SERVICE), region.get_interface(SERVICE)
    found = session.get_endpoint(service_type=SERVICE, interface=interface, region_name=region_name)
    if not found:
        from keystoneauth1.exceptions import EndpointNotFound  # noqa: PLC0415 - an extra

        raise EndpointNotFound(f"{interface} endpoint, region {region_name}")
    return str(found)


@dataclass(frozen=True, slots=True)
class _Asking:
    """Calls to Keystone, whose failures become ours."""

    name: str | None

    def ask(self, call: Callable[[], Any]) -> Any:
        """:raises Unauthorized: ``keystone-refused``. :raises Unavailable: ``keystone-away``. :raises BadConfig: ``cloud-…``, ``no-…``."""
        from keystoneauth1 import exceptions  # noqa: PLC0415 - an extra

        try:
            with warnings.catch_warnings(action="ignore"):  # a line for each call where nobody vouches: we say it once
                return call()
        except exceptions.Unauthorized as error:
            raise errors.Unauthorized(
                "keystone-refused",
                f"Keystone does not let this user into the cloud {_shown(self.name)}. Check name, password and project.",
            ) from error
        except (exceptions.ConnectionError, exceptions.RetriableConnectionFailure, exceptions.HttpServerError) as error:
            raise errors.Unavailable(
                "keystone-away", f"Keystone of the cloud {_shown(self.name)} does not answer: {error}"
            ) from error
        except exceptions.EndpointNotFound as error:
            raise errors.BadConfig(
                "no-accelerator-service",
                f"The catalog of the cloud {_shown(self.name)} has no service of type {SERVICE} for us ({error}). "
                "Register it, or say --url.",
            ) from error
        except exceptions.ClientException as error:
            raise errors.BadConfig(
                "cloud-not-usable", f"The cloud {_shown(self.name)} cannot be used: {error}"
            ) from error


def _shown(name: str | None) -> str:
    return repr(name or os.environ.get("OS_CLOUD") or os.environ.get("OS_AUTH_URL") or "openstack")
