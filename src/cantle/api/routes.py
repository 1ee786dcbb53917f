"""The whole URL space: every path, method, policy rule and handler. What is not here is a 404 or 405."""

from __future__ import annotations

from cantle.api import health
from cantle.api.agents import inventory, results, work
from cantle.api.query import PageQuery
from cantle.api.route import Route
from cantle.api.rules import PUBLIC
from cantle.api.v1 import capacity, host, intent, lease, plan
from cantle.api.v1 import device as v1_device
from cantle.api.v1 import discovery as v1_discovery
from cantle.api.v2 import arq, arq_patch, attribute, deployable, device, device_profile, discovery
from cantle.wire.inventory import InventoryAnswer, InventoryReport
from cantle.wire.work import Results, Work

HEALTH = (
    Route(
        method="GET",
        path="/healthz",
        rule=PUBLIC,
        handler=health.alive,
        answer=health.Status,
        says="The process is up.",
    ),
    Route(method="HEAD", path="/healthz", rule=PUBLIC, handler=health.alive, says="The process is up."),
    Route(
        method="GET",
        path="/healthcheck",
        rule=PUBLIC,
        handler=health.alive,
        answer=health.Status,
        says="Alias of /healthz.",
    ),
    Route(method="HEAD", path="/healthcheck", rule=PUBLIC, handler=health.alive, says="Alias of /healthz."),
    Route(
        method="GET",
        path="/readyz",
        rule=PUBLIC,
        handler=health.ready,
        answer=health.Status,
        says="Requests can be served.",
    ),
    Route(method="HEAD", path="/readyz", rule=PUBLIC, handler=health.ready, says="Requests can be served."),
)

DISCOVERY = (
    Route(
        method="GET", path="/", rule=PUBLIC, handler=discovery.root, answer=discovery.Root, says="List the versions."
    ),
    Route(
        method="GET",
        path="/v2",
        rule=PUBLIC,
        handler=discovery.version_2,
        answer=discovery.VersionDocument,
        says="Show the accelerator API's version and microversions.",
    ),
    Route(
        method="GET",
        path="/v1",
        rule=PUBLIC,
        handler=v1_discovery.version_1,
        answer=v1_discovery.VersionDocument,
        says="Show the version of Cantle's own API.",
    ),
)

DEVICE_PROFILES = (
    Route(
        method="GET",
        path="/v2/device_profiles",
        rule="cyborg:device_profile:get_all",
        handler=device_profile.list_all,
        query=device_profile.DeviceProfileQuery,
        answer=device_profile.Listed,
        says="List device profiles.",
    ),
    Route(
        method="POST",
        path="/v2/device_profiles",
        rule="cyborg:device_profile:create",
        handler=device_profile.create,
        body=list[device_profile.NewDeviceProfile],
        answer=device_profile.Shape,
        status=201,
        says="Create a device profile.",
    ),
    Route(
        method="DELETE",
        path="/v2/device_profiles",
        rule="cyborg:device_profile:delete",
        handler=device_profile.delete_listed,
        query=device_profile.DeleteQuery,
        status=204,
        says="Delete the device profiles named in value.",
    ),
    Route(
        method="GET",
        path="/v2/device_profiles/{ref}",
        rule="cyborg:device_profile:get_one",
        handler=device_profile.show,
        answer=device_profile.Shown,
        says="Show a device profile by uuid, or from 2.2 on by name.",
    ),
    Route(
        method="DELETE",
        path="/v2/device_profiles/{ref}",
        rule="cyborg:device_profile:delete",
        handler=device_profile.delete_one,
        status=204,
        says="Delete a device profile by uuid or name.",
    ),
)

DEVICES = (
    Route(
        method="GET",
        path="/v2/devices",
        rule="cyborg:device:get_all",
        handler=device.list_all,
        query=device.DeviceQuery,
        answer=device.Listed,
        says="List devices.",
    ),
    Route(
        method="GET",
        path="/v2/devices/{uuid}",
        rule="cyborg:device:get_one",
        handler=device.show,
        answer=device.Shape,
        says="Show a device.",
    ),
    Route(
        method="POST",
        path="/v2/devices/{uuid}/disable",
        rule="cyborg:device:disable",
        handler=device.disable,
        status=204,
        says="Take a device out of service.",
    ),
    Route(
        method="POST",
        path="/v2/devices/{uuid}/enable",
        rule="cyborg:device:enable",
        handler=device.enable,
        status=204,
        says="Put a device into service.",
    ),
)

DEPLOYABLES = (
    Route(
        method="GET",
        path="/v2/deployables",
        rule="cyborg:deployable:get_all",
        handler=deployable.list_all,
        query=PageQuery,
        answer=deployable.Listed,
        says="List deployables.",
    ),
    Route(
        method="GET",
        path="/v2/deployables/{uuid}",
        rule="cyborg:deployable:get_one",
        handler=deployable.show,
        answer=deployable.Shape,
        says="Show a deployable.",
    ),
    Route(
        method="PATCH",
        path="/v2/deployables/{uuid}/program",
        rule="cyborg:deployable:program",
        handler=deployable.program,
        body=list[deployable.ProgramStep],
        answer=deployable.Shape,
        says="Program a deployable.",
    ),
    Route(
        method="PATCH",
        path="/v2/deployables/{uuid}/program/{same}",
        rule="cyborg:deployable:program",
        handler=deployable.program,
        body=list[deployable.ProgramStep],
        answer=deployable.Shape,
        says="Program a deployable; the address openstacksdk makes.",
    ),
)

ATTRIBUTES = (
    Route(
        method="GET",
        path="/v2/attributes",
        rule="cyborg:attribute:get_all",
        handler=attribute.list_all,
        query=attribute.AttributeQuery,
        answer=attribute.Listed,
        says="List attributes.",
    ),
    Route(
        method="POST",
        path="/v2/attributes",
        rule="cyborg:attribute:create",
        handler=attribute.create,
        body=attribute.AttributeBody,
        answer=attribute.Shape,
        status=201,
        says="Add an attribute to a deployable.",
    ),
    Route(
        method="GET",
        path="/v2/attributes/{uuid}",
        rule="cyborg:attribute:get_one",
        handler=attribute.show,
        answer=attribute.Shape,
        says="Show an attribute.",
    ),
    Route(
        method="DELETE",
        path="/v2/attributes/{uuid}",
        rule="cyborg:attribute:delete",
        handler=attribute.delete,
        status=204,
        says="Delete an attribute.",
    ),
)

ACCELERATOR_REQUESTS = (
    Route(
        method="GET",
        path="/v2/accelerator_requests",
        rule="cyborg:arq:get_all",
        handler=arq.list_all,
        query=arq.ArqQuery,
        answer=arq.Listed,
        says="List accelerator requests.",
    ),
    Route(
        method="POST",
        path="/v2/accelerator_requests",
        rule="cyborg:arq:create",
        handler=arq.create,
        body=arq.NewArqs,
        answer=arq.Listed,
        status=201,
        says="Create the accelerator requests of a device profile.",
    ),
    Route(
        method="PATCH",
        path="/v2/accelerator_requests",
        rule="cyborg:arq:update",
        handler=arq.update,
        body=dict[str, list[arq_patch.Op]],
        status=202,
        says="Bind or unbind accelerator requests.",
    ),
    Route(
        method="DELETE",
        path="/v2/accelerator_requests",
        rule="cyborg:arq:delete",
        handler=arq.delete_listed,
        query=arq.DeleteQuery,
        status=204,
        says="Delete accelerator requests, by uuid or by instance.",
    ),
    Route(
        method="GET",
        path="/v2/accelerator_requests/{uuid}",
        rule="cyborg:arq:get_one",
        handler=arq.show,
        answer=arq.Shape,
        says="Show an accelerator request.",
    ),
    Route(
        method="PATCH",
        path="/v2/accelerator_requests/{uuid}",
        rule="cyborg:arq:update",
        handler=arq.update_one,
        body=dict[str, list[arq_patch.Op]],
        status=202,
        says="Bind or unbind one accelerator request, as openstacksdk asks for it.",
    ),
    Route(
        method="DELETE",
        path="/v2/accelerator_requests/{uuid}",
        rule="cyborg:arq:delete",
        handler=arq.delete_one,
        status=204,
        says="Delete an accelerator request.",
    ),
)

OURS = (
    Route(
        method="GET",
        path="/v1/hosts",
        rule="cantle:host:get_all",
        handler=host.list_all,
        answer=host.Listed,
        says="List hosts.",
    ),
    Route(
        method="GET",
        path="/v1/devices",
        rule="cantle:device:get_all",
        handler=v1_device.list_all,
        query=device.DeviceQuery,
        answer=v1_device.Listed,
        says="List devices with address, mode, health and reason.",
    ),
    Route(
        method="GET",
        path="/v1/hosts/{host}/devices/{address}",
        rule="cantle:device:get_one",
        handler=v1_device.show,
        query=v1_device.WaitQuery,
        answer=v1_device.Shown,
        says="Show a device, or wait for its host to follow its intent.",
    ),
    Route(
        method="GET",
        path="/v1/hosts/{host}/devices/{address}/intent",
        rule="cantle:intent:get",
        handler=intent.show,
        answer=intent.Shape,
        says="Show what a device is wanted to be.",
    ),
    Route(
        method="PUT",
        path="/v1/hosts/{host}/devices/{address}/intent",
        rule="cantle:intent:set",
        handler=intent.put,
        body=intent.NewIntent,
        answer=intent.Shape,
        conditional=True,
        says="Want a device to be something.",
    ),
    Route(
        method="DELETE",
        path="/v1/hosts/{host}/devices/{address}/intent",
        rule="cantle:intent:clear",
        handler=intent.delete,
        status=204,
        conditional=True,
        says="Leave a device to its host's configuration again.",
    ),
    Route(
        method="GET",
        path="/v1/hosts/{host}/devices/{address}/plan",
        rule="cantle:intent:get",
        handler=plan.show,
        query=plan.PlanQuery,
        answer=plan.Shape,
        says="Show what would be done to bring a device to a mode.",
    ),
    Route(
        method="GET",
        path="/v1/capacity",
        rule="cantle:capacity:get_all",
        handler=capacity.list_all,
        answer=capacity.Listed,
        says="Show what is free where.",
    ),
    Route(
        method="GET",
        path="/v1/leases",
        rule="cantle:lease:get_all",
        handler=lease.list_all,
        query=lease.LeaseQuery,
        answer=lease.Listed,
        says="List leases.",
    ),
    Route(
        method="POST",
        path="/v1/leases",
        rule="cantle:lease:create",
        handler=lease.create,
        body=lease.NewLease,
        answer=lease.Shape,
        status=201,
        says="Ask for a lease.",
    ),
    Route(
        method="GET",
        path="/v1/leases/{uuid}",
        rule="cantle:lease:get_one",
        handler=lease.show,
        query=lease.WaitQuery,
        answer=lease.Shape,
        says="Show a lease, or wait for it to settle.",
    ),
    Route(
        method="POST",
        path="/v1/leases/{uuid}/release",
        rule="cantle:lease:release",
        handler=lease.release,
        answer=lease.Shape,
        status=202,
        says="Give a lease back.",
    ),
)

AGENTS = (
    Route(
        method="PUT",
        path="/v1/hosts/{host}/inventory",
        rule="cantle:agent:report",
        handler=inventory.accept,
        body=InventoryReport,
        answer=InventoryAnswer,
        from_agent=True,
        says="Report a host's inventory.",
    ),
    Route(
        method="GET",
        path="/v1/hosts/{host}/work",
        rule="cantle:agent:work",
        handler=work.show,
        query=work.WorkQuery,
        answer=Work,
        says="Ask for a host's desired state, or wait for it to change.",
    ),
    Route(
        method="POST",
        path="/v1/hosts/{host}/results",
        rule="cantle:agent:results",
        handler=results.accept,
        body=Results,
        status=204,
        from_agent=True,
        says="Send back what became of the units.",
    ),
)

ACCELERATOR = (*DEVICE_PROFILES, *DEVICES, *DEPLOYABLES, *ATTRIBUTES, *ACCELERATOR_REQUESTS)

#: What clients reach.
PUBLIC_ROUTES = (*HEALTH, *DISCOVERY, *ACCELERATOR, *OURS)

#: What agents reach, at a listener of their own.
AGENT_ROUTES = (*HEALTH, *AGENTS)
