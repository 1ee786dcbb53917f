"""Who may do what, before the operator's ``policy.yaml``: Cyborg's rule names with its secure defaults (contract section 1.6).

Cyborg ships the same rules but does not enforce them by default; here they always hold.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The rule of what needs no caller: discovery documents and health.
PUBLIC = "public_api"

#: Asked for besides the rule of the route, by a request that names a guest.
ATTACH = "cantle:lease:attach"

#: Asked about whoever is told why something is not served: whether he is also told the names of hosts and cards.
EXPLAIN_NAMES = "cantle:explain:names"

ADMIN = "rule:admin_api"
READER = "rule:project_reader_or_admin"
MEMBER = "rule:project_member_or_admin"
MANAGER = "rule:project_manager_or_admin"
MEMBER_OR_SERVICE = "rule:project_member_or_service"
AGENT = "role:agent"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its name, oslo.policy's check string, and what it allows.

    ``scoped``: it needs a token that is scoped to a project (Cyborg's ``scope_types=['project']``). Which requests a rule guards
    stands in the table of routes.
    """

    name: str
    check: str
    description: str
    scoped: bool = True


def _project(role: str) -> str:
    return f"role:{role} and project_id:%(project_id)s"


BUILDING_BLOCKS = (
    Rule("admin_api", "role:admin", "An administrator."),
    Rule("service_api", "role:service", "Another OpenStack service."),
    Rule("project_manager_api", _project("manager"), "A manager of the project."),
    Rule("project_member_api", _project("member"), "A member of the project."),
    Rule("project_reader_api", _project("reader"), "A reader of the project."),
    Rule(
        "project_manager_or_admin",
        "rule:project_manager_api or rule:admin_api",
        "A manager of the project, or an administrator.",
    ),
    Rule(
        "project_member_or_admin",
        "rule:project_member_api or rule:admin_api",
        "A member of the project, or an administrator.",
    ),
    Rule(
        "project_reader_or_admin",
        "rule:project_reader_api or rule:admin_api",
        "A reader of the project, or an administrator.",
    ),
    Rule(
        "project_member_or_service",
        "rule:project_member_api or rule:service_api",
        "A member of the project, or a service.",
    ),
    Rule("public_api", "@", "Anybody, without a token."),
    Rule("allow", "@", "Anybody with a token."),
    Rule("deny", "!", "Nobody."),
    Rule("default", "!", "What has no rule is refused."),
)

ACCELERATOR = (
    Rule("cyborg:device_profile:get_all", READER, "List device profiles."),
    Rule("cyborg:device_profile:get_one", READER, "Show a device profile."),
    Rule("cyborg:device_profile:create", ADMIN, "Create a device profile."),
    Rule("cyborg:device_profile:delete", ADMIN, "Delete device profiles."),
    Rule("cyborg:device:get_all", MANAGER, "List devices."),
    Rule("cyborg:device:get_one", MANAGER, "Show a device."),
    Rule("cyborg:device:disable", ADMIN, "Take a device out of service."),
    Rule("cyborg:device:enable", ADMIN, "Put a device into service."),
    Rule("cyborg:deployable:get_all", MANAGER, "List deployables."),
    Rule("cyborg:deployable:get_one", MANAGER, "Show a deployable."),
    Rule("cyborg:deployable:program", ADMIN, "Program a deployable."),
    Rule("cyborg:attribute:get_all", MANAGER, "List attributes."),
    Rule("cyborg:attribute:get_one", MANAGER, "Show an attribute."),
    Rule("cyborg:attribute:create", ADMIN, "Add an attribute to a deployable."),
    Rule("cyborg:attribute:delete", ADMIN, "Delete an attribute."),
    Rule("cyborg:arq:get_all", READER, "List accelerator requests."),
    Rule("cyborg:arq:get_one", READER, "Show an accelerator request."),
    Rule("cyborg:arq:create", MEMBER_OR_SERVICE, "Create accelerator requests."),
    Rule("cyborg:arq:update", MEMBER_OR_SERVICE, "Bind or unbind accelerator requests."),
    Rule("cyborg:arq:delete", MEMBER_OR_SERVICE, "Delete accelerator requests."),
)

OURS = (
    Rule("cantle:host:get_all", MANAGER, "List hosts."),
    Rule("cantle:host:get_one", MANAGER, "Show a host."),
    Rule("cantle:host:drain", ADMIN, "Lend nothing new on a host, or lend on it again."),
    Rule("cantle:host:confirm", ADMIN, "Let a frozen host, or another machine under its name, go on."),
    Rule("cantle:host:rename", ADMIN, "Let a host go by another name."),
    Rule("cantle:host:forget", ADMIN, "Take a host out."),
    Rule("cantle:host:invite", ADMIN, "Let a machine join as a host."),
    Rule("cantle:device:get_all", MANAGER, "List devices with their mode, health and reasons."),
    Rule("cantle:device:get_one", MANAGER, "Show a device, or wait for its intent to be followed."),
    Rule("cantle:intent:get", ADMIN, "Show what a device is wanted to be, and what would be done for that."),
    Rule("cantle:intent:set", ADMIN, "Want a device to be something."),
    Rule("cantle:intent:clear", ADMIN, "Leave a device to its host's configuration again."),
    Rule("cantle:capacity:get_all", MANAGER, "Show what is free where."),
    Rule("cantle:event:get_all", ADMIN, "List what others were told."),
    Rule("cantle:flavor:get_all", READER, "List flavors."),
    Rule("cantle:flavor:get_one", READER, "Show a flavor."),
    Rule("cantle:flavor:create", ADMIN, "Create a flavor."),
    Rule("cantle:flavor:delete", ADMIN, "Delete a flavor."),
    Rule("cantle:explain:get", READER, "Ask what could serve a request now, and why the rest could not."),
    Rule(EXPLAIN_NAMES, MANAGER, "Read names of hosts and cards in explanations and refusals; others read numbers."),
    Rule("cantle:lease:get_all", READER, "List leases."),
    Rule("cantle:lease:get_one", READER, "Show a lease, or wait for it."),
    Rule("cantle:lease:create", MEMBER, "Ask for a lease."),
    Rule(ATTACH, ADMIN, "Ask for a lease that its host puts into a guest, whoever's guest that is."),
    Rule("cantle:lease:move", MEMBER, "Move a lease to another host."),
    Rule("cantle:lease:release", MEMBER, "Give a lease back."),
    Rule("cantle:lease:renew", MEMBER, "Let a lease end at another time."),
    Rule("cantle:lease:force", ADMIN, "Give a lease back without waiting for its host."),
    Rule("cantle:audit:get_all", ADMIN, "List who did what."),
    Rule("cantle:who:get", READER, "Show who has what; another project's only to an administrator."),
    Rule("cantle:quota:get_all", READER, "List quotas; another project's only to an administrator."),
    Rule("cantle:quota:set", ADMIN, "Limit what a project may have."),
    Rule("cantle:usage:get", READER, "Show unit-hours; another project's only to an administrator."),
    Rule("cantle:token:get_all", ADMIN, "List tokens."),
    Rule("cantle:token:get_one", ADMIN, "Show a token."),
    Rule("cantle:token:create", ADMIN, "Make a token, also an invitation for a host."),
    Rule("cantle:token:revoke", ADMIN, "Take a token back."),
)

AGENTS = (
    Rule("cantle:agent:join", "role:join", "Join as the host of an invitation.", scoped=False),
    Rule("cantle:agent:report", AGENT, "Report a host's inventory.", scoped=False),
    Rule("cantle:agent:work", AGENT, "Ask for a host's work, or wait for it.", scoped=False),
    Rule("cantle:agent:results", AGENT, "Send back results.", scoped=False),
)

RULES = (*BUILDING_BLOCKS, *ACCELERATOR, *OURS, *AGENTS)
