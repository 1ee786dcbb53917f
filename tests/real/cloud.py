"""The people, roles and catalog of the test cloud, and how each of them reaches the accelerator API."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from keystoneauth1 import adapter, session
from keystoneauth1.access.access import AccessInfoV3
from keystoneauth1.discover import EndpointData
from keystoneauth1.identity import v3
from keystoneauth1.service_token import ServiceTokenAuthWrapper
from tests.real.keystone import ADMIN_PASSWORD

PASSWORD = "real-parts"
ROLES = ("admin", "manager", "member", "reader", "service", "nobody")

#: name: (project, roles). Keystone adds implied roles: admin implies manager implies member implies reader.
PEOPLE: dict[str, tuple[str, tuple[str, ...]]] = {
    "admin": ("admin", ("admin",)),
    "demo": ("demo", ("member",)),
    "demo-admin": ("demo", ("admin",)),
    "demo-manager": ("demo", ("manager",)),
    "demo-reader": ("demo", ("reader",)),
    "demo-nobody": ("demo", ("nobody",)),
    "other": ("other", ("member",)),
    "nova": ("service", ("admin", "service")),
    "robot": ("service", ("service",)),  # a service user with nothing but its role
    "cantle": ("service", ("service",)),  # what Cantle itself logs in as: enough to check tokens
}


@dataclass(frozen=True)
class Endpoint:
    """A line of the catalog: the same URL for the public, internal and admin interface."""

    name: str
    type: str
    url: str
    region: str = "RegionOne"


class Cloud:
    """A Keystone with the people above in it."""

    def __init__(self, auth_url: str) -> None:
        self.auth_url = auth_url
        self._sessions: dict[tuple[str, str | None], session.Session] = {}

    def seed(self) -> None:
        """Make roles, projects and users. Only once in a Keystone's life."""
        made: dict[tuple[str, str], str] = {}
        for role in ROLES:
            found = self._identity("GET", f"/roles?name={role}")["roles"]
            made["role", role] = found[0]["id"] if found else self._new("role", name=role)
        made["project", "admin"] = self._identity("GET", "/projects?name=admin")["projects"][0]["id"]
        for name, (project, roles) in PEOPLE.items():
            if name == "admin":
                continue
            if ("project", project) not in made:
                made["project", project] = self._new("project", name=project, domain_id="default")
            user = self._new("user", name=name, domain_id="default", password=PASSWORD)
            for role in roles:
                path = f"/projects/{made['project', project]}/users/{user}/roles/{made['role', role]}"
                self._identity("PUT", path)
        self._identity("PUT", f"/domains/default/users/{self.access('admin').user_id}/roles/{made['role', 'admin']}")

    def publish(self, *endpoints: Endpoint) -> None:
        """Add to the catalog. Sessions made before know of it with their next token only."""
        regions = {region["id"] for region in self._identity("GET", "/regions")["regions"]}
        services = {service["type"]: service["id"] for service in self._identity("GET", "/services")["services"]}
        for endpoint in endpoints:
            if endpoint.region not in regions:
                regions.add(self._new("region", id=endpoint.region))
            if endpoint.type not in services:
                services[endpoint.type] = self._new("service", name=endpoint.name, type=endpoint.type)
            for interface in ("public", "internal", "admin"):
                ids = {"service_id": services[endpoint.type], "region_id": endpoint.region}
                self._new("endpoint", interface=interface, url=endpoint.url, **ids)
        self._sessions.clear()

    def login(self, person: str) -> v3.Password:
        """A fresh login of ``person`` in their project; it asks for its token when it is first used."""
        known: dict[str, Any] = dict(self.credentials(person))
        return v3.Password(**known)

    def credentials(self, person: str) -> dict[str, str]:
        """What a password login needs, as ``clouds.yaml`` spells it."""
        return {
            "auth_url": self.auth_url,
            "username": person,
            "password": ADMIN_PASSWORD if person == "admin" else PASSWORD,
            "project_name": PEOPLE[person][0],
            "user_domain_id": "default",
            "project_domain_id": "default",
        }

    def session(self, person: str, *, service: str | None = None) -> session.Session:
        """``person``'s session, the same at each call. With ``service`` its requests carry that user's service token too."""
        key = (person, service)
        if key not in self._sessions:
            auth: Any = self.login(person)
            if service is not None:
                auth = ServiceTokenAuthWrapper(user_auth=auth, service_auth=self.login(service))
            self._sessions[key] = session.Session(auth=auth)
        return self._sessions[key]

    def api(self, person: str, *, service: str | None = None, region: str = "RegionOne") -> adapter.Adapter:
        """The accelerator API as ``person`` finds it in the catalog. Answers come back whatever their status."""
        return adapter.Adapter(
            self.session(person, service=service),
            service_type="accelerator",
            interface="public",
            region_name=region,
            raise_exc=False,
        )

    def access(self, person: str) -> AccessInfoV3:
        """``person``'s token and what Keystone said with it: ids, roles, catalog."""
        session = self.session(person)
        assert isinstance(session.auth, v3.Password)
        access = session.auth.get_access(session)
        assert isinstance(access, AccessInfoV3)
        return access

    def endpoint(self, region: str) -> EndpointData:
        """What keystoneauth discovers about the accelerator API of a region."""
        session = self.session("demo")
        assert isinstance(session.auth, v3.Password)
        data = session.auth.get_endpoint_data(
            session,
            service_type="accelerator",
            interface="public",
            region_name=region,
            min_version="2",
            max_version="2.latest",
        )
        assert data is not None, f"nothing is discovered in {region}"
        return data

    def token(self, person: str) -> str:
        """``person``'s token, the same at each call."""
        token = self.access(person).auth_token
        assert token is not None
        return token

    def project_id(self, person: str) -> str:
        """The id of the project that ``person`` works in."""
        found = self.access(person).project_id
        assert found is not None, f"{person}'s token has no project"
        return found

    def write_clouds_yaml(self, path: Path, *, standalone: tuple[str, str] | None = None) -> None:
        """Everybody's login as a file for command-line clients (``OS_CLIENT_CONFIG_FILE``).

        :param standalone: the accelerator and the compute endpoint of one more cloud of that name, without Keystone.
        """
        clouds: dict[str, Any] = {
            person: {"region_name": "RegionOne", "identity_api_version": "3", "auth": self.credentials(person)}
            for person in PEOPLE
        }
        if standalone is not None:
            accelerator, compute = standalone
            clouds["standalone"] = {
                "auth_type": "none",
                "auth": {"endpoint": accelerator},
                "accelerator_endpoint_override": accelerator,
                "compute_endpoint_override": compute,
            }
        path.write_text(yaml.safe_dump({"clouds": clouds}))
        path.chmod(0o600)

    def _new(self, kind: str, **fields: str) -> str:
        made: str = self._identity("POST", f"/{kind}s", {kind: fields})[kind]["id"]
        return made

    def _identity(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self.session("admin").request(self.auth_url + path, method, json=body)
        parsed: dict[str, Any] = answer.json() if answer.content else {}
        return parsed
