"""The people, roles and catalog of the test cloud, and how each of them reaches the accelerator API."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keystoneauth1 import adapter, session
from keystoneauth1.access.access import AccessInfoV3
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

    def seed(self, endpoints: list[Endpoint]) -> None:
        """Make roles, projects, users and the catalog. Only once in a Keystone's life."""
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
        for region in {endpoint.region for endpoint in endpoints} - {"RegionOne"}:
            self._new("region", id=region)
        services: dict[str, str] = {}
        for endpoint in endpoints:
            if endpoint.type not in services:
                services[endpoint.type] = self._new("service", name=endpoint.name, type=endpoint.type)
            for interface in ("public", "internal", "admin"):
                ids = {"service_id": services[endpoint.type], "region_id": endpoint.region}
                self._new("endpoint", interface=interface, url=endpoint.url, **ids)

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

    def project_id(self, person: str) -> str:
        """The id of the project that ``person`` works in."""
        found = self.access(person).project_id
        assert found is not None, f"{person}'s token has no project"
        return found

    def write_clouds_yaml(self, path: Path) -> None:
        """Everybody's login as a file for command-line clients (``OS_CLIENT_CONFIG_FILE``)."""
        lines = ["clouds:"]
        for person in PEOPLE:
            lines += [f"  {person}:", "    region_name: RegionOne", "    identity_api_version: 3", "    auth:"]
            lines += [f"      {key}: {value}" for key, value in self.credentials(person).items()]
        path.write_text("\n".join(lines) + "\n")
        path.chmod(0o600)

    def _new(self, kind: str, **fields: str) -> str:
        made: str = self._identity("POST", f"/{kind}s", {kind: fields})[kind]["id"]
        return made

    def _identity(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self.session("admin").request(self.auth_url + path, method, json=body)
        parsed: dict[str, Any] = answer.json() if answer.content else {}
        return parsed
