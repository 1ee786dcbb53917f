"""Who may do what, before the operator's ``policy.yaml``: Cyborg's rule names with its secure defaults (contract section 1.6).

Cyborg ships the same rules but does not enforce them by default; here they always hold.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The rule of what needs no caller: discovery documents and health.
PUBLIC = "public_api"

ADMIN = "rule:admin_api"
READER = "rule:project_reader_or_admin"
MEMBER = "rule:project_member_or_admin"
MANAGER = "rule:project_manager_or_admin"
MEMBER_OR_SERVICE = "rule:project_member_or_service"
AGENT = "role:agent"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its name, oslo.policy's check string, what it guards, and the requests it guards (none for a building block).

    ``scoped``: it needs a token that is scoped to a project (Cyborg's ``scope_types=['project']``).
    """

    name: str
    check: str
    description: str
    operations: tuple[tuple[str, str], ...] = ()
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
    Rule("cyborg:device_profile:get_all", READER, "List device profiles.", (("GET", "/v2/device_profiles"),)),
    Rule("cyborg:device_profile:get_one", READER, "Show a device profile.", (("GET", "/v2/device_profiles/{ref}"),)),
    Rule("cyborg:device_profile:create", ADMIN, "Create a device profile.", (("POST", "/v2/device_profiles"),)),
    Rule(
        "cyborg:device_profile:delete",
        ADMIN,
        "Delete device profiles.",
        (("DELETE", "/v2/device_profiles"), ("DELETE", "/v2/device_profiles/{ref}")),
    ),
    Rule("cyborg:device:get_all", MANAGER, "List devices.", (("GET", "/v2/devices"),)),
    Rule("cyborg:device:get_one", MANAGER, "Show a device.", (("GET", "/v2/devices/{uuid}"),)),
    Rule("cyborg:device:disable", ADMIN, "Take a device out of service.", (("POST", "/v2/devices/{uuid}/disable"),)),
    Rule("cyborg:device:enable", ADMIN, "Put a device into service.", (("POST", "/v2/devices/{uuid}/enable"),)),
    Rule("cyborg:deployable:get_all", MANAGER, "List deployables.", (("GET", "/v2/deployables"),)),
    Rule("cyborg:deployable:get_one", MANAGER, "Show a deployable.", (("GET", "/v2/deployables/{uuid}"),)),
    Rule(
        "cyborg:deployable:program",
        ADMIN,
        "Program a deployable.",
        (("PATCH", "/v2/deployables/{uuid}/program"), ("PATCH", "/v2/deployables/{uuid}/program/{same}")),
    ),
    Rule("cyborg:attribute:get_all", MANAGER, "List attributes.", (("GET", "/v2/attributes"),)),
    Rule("cyborg:attribute:get_one", MANAGER, "Show an attribute.", (("GET", "/v2/attributes/{uuid}"),)),
    Rule("cyborg:attribute:create", ADMIN, "Add an attribute to a deployable.", (("POST", "/v2/attributes"),)),
    Rule("cyborg:attribute:delete", ADMIN, "Delete an attribute.", (("DELETE", "/v2/attributes/{uuid}"),)),
    Rule("cyborg:arq:get_all", READER, "List accelerator requests.", (("GET", "/v2/accelerator_requests"),)),
    Rule("cyborg:arq:get_one", READER, "Show an accelerator request.", (("GET", "/v2/accelerator_requests/{uuid}"),)),
    Rule(
        "cyborg:arq:create", MEMBER_OR_SERVICE, "Create accelerator requests.", (("POST", "/v2/accelerator_requests"),)
    ),
    Rule(
        "cyborg:arq:update",
        MEMBER_OR_SERVICE,
        "Bind or unbind accelerator requests.",
        (("PATCH", "/v2/accelerator_requests"), ("PATCH", "/v2/accelerator_requests/{uuid}")),
    ),
    Rule(
        "cyborg:arq:delete",
        MEMBER_OR_SERVICE,
        "Delete accelerator requests.",
        (("DELETE", "/v2/accelerator_requests"), ("DELETE", "/v2/accelerator_requests/{uuid}")),
    ),
)

OURS = (
    Rule("cantle:host:get_all", MANAGER, "List hosts.", (("GET", "/v1/hosts"),)),
    Rule(
        "cantle:device:get_all", MANAGER, "List devices with their mode, health and reasons.", (("GET", "/v1/devices"),)
    ),
    Rule(
        "cantle:device:get_one",
        MANAGER,
        "Show a device, or wait for its intent to be followed.",
        (("GET", "/v1/hosts/{host}/devices/{address}"),),
    ),
    Rule(
        "cantle:intent:get",
        ADMIN,
        "Show what a device is wanted to be, and what would be done for that.",
        (("GET", "/v1/hosts/{host}/devices/{address}/intent"), ("GET", "/v1/hosts/{host}/devices/{address}/plan")),
    ),
    Rule(
        "cantle:intent:set",
        ADMIN,
        "Want a device to be something.",
        (("PUT", "/v1/hosts/{host}/devices/{address}/intent"),),
    ),
    Rule(
        "cantle:intent:clear",
        ADMIN,
        "Leave a device to its host's configuration again.",
        (("DELETE", "/v1/hosts/{host}/devices/{address}/intent"),),
    ),
    Rule("cantle:capacity:get_all", MANAGER, "Show what is free where.", (("GET", "/v1/capacity"),)),
    Rule("cantle:lease:get_all", READER, "List leases.", (("GET", "/v1/leases"),)),
    Rule("cantle:lease:get_one", READER, "Show a lease, or wait for it.", (("GET", "/v1/leases/{uuid}"),)),
    Rule("cantle:lease:create", MEMBER, "Ask for a lease.", (("POST", "/v1/leases"),)),
    Rule("cantle:lease:release", MEMBER, "Give a lease back.", (("POST", "/v1/leases/{uuid}/release"),)),
)

AGENTS = (
    Rule("cantle:agent:report", AGENT, "Report a host's inventory.", (("PUT", "/v1/hosts/{host}/inventory"),), False),
    Rule(
        "cantle:agent:work", AGENT, "Ask for a host's work, or wait for it.", (("GET", "/v1/hosts/{host}/work"),), False
    ),
    Rule("cantle:agent:results", AGENT, "Send back results.", (("POST", "/v1/hosts/{host}/results"),), False),
)

RULES = (*BUILDING_BLOCKS, *ACCELERATOR, *OURS, *AGENTS)
