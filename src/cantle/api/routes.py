"""The whole URL space: every path, method, policy rule and handler. What is not here is a 404 or 405."""

from __future__ import annotations

from cantle.api import health
from cantle.api.agents import inventory, join, results, work
from cantle.api.query import PageQuery
from cantle.api.route import Route
from cantle.api.rules import PUBLIC
from cantle.api.v1 import arq as v1_arq
from cantle.api.v1 import (
    audit,
    capacity,
    description,
    event,
    explain,
    flavor,
    host,
    intent,
    invitation,
    lease,
    lease_end,
    move,
    plan,
    pool,
    profile,
    quota,
    room,
    stream,
    tally,
    token,
    usage,
    who,
)
from cantle.api.v1 import deployable as v1_deployable
from cantle.api.v1 import device as v1_device
from cantle.api.v1 import discovery as v1_discovery
from cantle.api.v2 import arq, arq_patch, attribute, deployable, device, device_profile, discovery
from cantle.wire.inventory import InventoryAnswer, InventoryReport
from cantle.wire.join import Authority, JoinAnswer, JoinRequest
from cantle.wire.work import Results, Work

# A table is read as one.
# fmt: off

HEALTH = (
    Route("GET", "/healthz", PUBLIC, health.alive,
          answer=health.Status, says="The process is up."),
    Route("HEAD", "/healthz", PUBLIC, health.alive,
          says="The process is up."),
    Route("GET", "/healthcheck", PUBLIC, health.alive,
          answer=health.Status, says="Alias of /healthz."),
    Route("HEAD", "/healthcheck", PUBLIC, health.alive,
          says="Alias of /healthz."),
    Route("GET", "/readyz", PUBLIC, health.ready,
          answer=health.Status, says="Requests can be served."),
    Route("HEAD", "/readyz", PUBLIC, health.ready,
          says="Requests can be served."),
)

DISCOVERY = (
    Route("GET", "/", PUBLIC, discovery.root,
          answer=discovery.Root, says="List the versions."),
    Route("GET", "/v2", PUBLIC, discovery.version_2,
          answer=discovery.VersionDocument, says="Show the accelerator API's version and microversions."),
    Route("GET", "/v1", PUBLIC, v1_discovery.version_1,
          answer=v1_discovery.VersionDocument, says="Show the version of Cantle's own API."),
)

DEVICE_PROFILES = (
    Route("GET", "/v2/device_profiles", "cyborg:device_profile:get_all", device_profile.list_all,
          query=device_profile.DeviceProfileQuery, answer=device_profile.Listed, says="List device profiles."),
    Route("POST", "/v2/device_profiles", "cyborg:device_profile:create", device_profile.create,
          body=list[device_profile.NewDeviceProfile], answer=device_profile.Shape, status=201, says="Create a device profile."),
    Route("DELETE", "/v2/device_profiles", "cyborg:device_profile:delete", device_profile.delete_listed,
          query=device_profile.DeleteQuery, status=204, says="Delete the device profiles named in value."),
    Route("GET", "/v2/device_profiles/{ref}", "cyborg:device_profile:get_one", device_profile.show,
          answer=device_profile.Shown, says="Show a device profile by uuid, or from 2.2 on by name."),
    Route("DELETE", "/v2/device_profiles/{ref}", "cyborg:device_profile:delete", device_profile.delete_one,
          status=204, says="Delete a device profile by uuid or name."),
)

DEVICES = (
    Route("GET", "/v2/devices", "cyborg:device:get_all", device.list_all,
          query=device.DeviceQuery, answer=device.Listed, says="List devices."),
    Route("GET", "/v2/devices/{uuid}", "cyborg:device:get_one", device.show,
          answer=device.Shape, says="Show a device."),
    Route("POST", "/v2/devices/{uuid}/disable", "cyborg:device:disable", device.disable,
          status=204, says="Take a device out of service."),
    Route("POST", "/v2/devices/{uuid}/enable", "cyborg:device:enable", device.enable,
          status=204, says="Put a device into service."),
)

DEPLOYABLES = (
    Route("GET", "/v2/deployables", "cyborg:deployable:get_all", deployable.list_all,
          query=PageQuery, answer=deployable.Listed, says="List deployables."),
    Route("GET", "/v2/deployables/{uuid}", "cyborg:deployable:get_one", deployable.show,
          answer=deployable.Shape, says="Show a deployable."),
    Route("PATCH", "/v2/deployables/{uuid}/program", "cyborg:deployable:program", deployable.program,
          body=list[deployable.ProgramStep], answer=deployable.Shape, says="Program a deployable."),
    Route("PATCH", "/v2/deployables/{uuid}/program/{same}", "cyborg:deployable:program", deployable.program,
          body=list[deployable.ProgramStep], answer=deployable.Shape, says="Program a deployable; the address openstacksdk makes."),
)

ATTRIBUTES = (
    Route("GET", "/v2/attributes", "cyborg:attribute:get_all", attribute.list_all,
          query=attribute.AttributeQuery, answer=attribute.Listed, says="List attributes."),
    Route("POST", "/v2/attributes", "cyborg:attribute:create", attribute.create,
          body=attribute.AttributeBody, answer=attribute.Shape, status=201, says="Add an attribute to a deployable."),
    Route("GET", "/v2/attributes/{uuid}", "cyborg:attribute:get_one", attribute.show,
          answer=attribute.Shape, says="Show an attribute."),
    Route("DELETE", "/v2/attributes/{uuid}", "cyborg:attribute:delete", attribute.delete,
          status=204, says="Delete an attribute."),
)

ACCELERATOR_REQUESTS = (
    Route("GET", "/v2/accelerator_requests", "cyborg:arq:get_all", arq.list_all,
          query=arq.ArqQuery, answer=arq.Listed, says="List accelerator requests."),
    Route("POST", "/v2/accelerator_requests", "cyborg:arq:create", arq.create,
          body=arq.NewArqs, answer=arq.Listed, status=201, says="Create the accelerator requests of a device profile."),
    Route("PATCH", "/v2/accelerator_requests", "cyborg:arq:update", arq.update,
          body=dict[str, list[arq_patch.Op]], status=202, says="Bind or unbind accelerator requests."),
    Route("DELETE", "/v2/accelerator_requests", "cyborg:arq:delete", arq.delete_listed,
          query=arq.DeleteQuery, status=204, says="Delete accelerator requests, by uuid or by instance."),
    Route("GET", "/v2/accelerator_requests/{uuid}", "cyborg:arq:get_one", arq.show,
          answer=arq.Shape, says="Show an accelerator request."),
    Route("PATCH", "/v2/accelerator_requests/{uuid}", "cyborg:arq:update", arq.update_one,
          body=dict[str, list[arq_patch.Op]], status=202, says="Bind or unbind one accelerator request, as openstacksdk asks for it."),
    Route("DELETE", "/v2/accelerator_requests/{uuid}", "cyborg:arq:delete", arq.delete_one,
          status=204, says="Delete an accelerator request."),
)

OURS = (
    Route("GET", "/v1/hosts", "cantle:host:get_all", host.list_all,
          query=host.HostQuery, answer=host.Listed, says="List hosts."),
    Route("GET", "/v1/hosts/{host}", "cantle:host:get_one", host.show,
          answer=host.Shape, says="Show a host."),
    Route("GET", "/v1/devices", "cantle:device:get_all", v1_device.list_all,
          query=v1_device.DeviceQuery, answer=v1_device.Listed, says="List devices with address, mode, health and reason."),
    Route("GET", "/v1/devices/{uuid}", "cantle:device:get_one", v1_device.find,
          answer=v1_device.Shown, says="Show a device by its uuid."),
    Route("GET", "/v1/hosts/{host}/devices/{address}", "cantle:device:get_one", v1_device.show,
          query=v1_device.WaitQuery, answer=v1_device.Shown, says="Show a device, or wait for its host to follow its intent."),
    Route("GET", "/v1/hosts/{host}/devices/{address}/intent", "cantle:intent:get", intent.show,
          answer=intent.Shape, says="Show what a device is wanted to be."),
    Route("PUT", "/v1/hosts/{host}/devices/{address}/intent", "cantle:intent:set", intent.put,
          body=intent.NewIntent, answer=intent.Shape, conditional=True, says="Want a device to be something."),
    Route("DELETE", "/v1/hosts/{host}/devices/{address}/intent", "cantle:intent:clear", intent.delete,
          status=204, conditional=True, says="Leave a device to its host's configuration again."),
    Route("GET", "/v1/hosts/{host}/devices/{address}/plan", "cantle:intent:get", plan.show,
          query=plan.PlanQuery, answer=plan.Shape, says="Show what would be done to bring a device to a mode."),
    Route("GET", "/v1/deployables", "cyborg:deployable:get_all", v1_deployable.list_all,
          query=v1_deployable.DeployableQuery, answer=v1_deployable.Listed, says="List what is offered together."),
    Route("GET", "/v1/deployables/{uuid}", "cyborg:deployable:get_one", v1_deployable.show,
          answer=v1_deployable.Shape, says="Show a deployable with its resource class, traits and units."),
    Route("GET", "/v1/capacity", "cantle:capacity:get_all", capacity.list_all,
          query=capacity.CapacityQuery, answer=capacity.Listed, says="Show what is free where."),
    Route("GET", "/v1/capacity/profiles", "cantle:capacity:get_all", room.list_all,
          query=room.RoomQuery, answer=room.Listed, says="Show how many more of each profile and flavor fit now."),
    Route("GET", "/v1/capacity/states", "cantle:capacity:get_all", tally.show,
          query=tally.TallyQuery, answer=tally.Listed, says="Count units by what became of them, by host and class."),
    Route("GET", "/v1/pools", "cantle:capacity:get_all", pool.list_all,
          query=pool.PoolQuery, answer=pool.Listed, says="Show free PCI devices, counted."),
    Route("GET", "/v1/profiles", "cyborg:device_profile:get_all", profile.list_all,
          query=profile.ProfileQuery, answer=profile.Listed, says="List device profiles."),
    Route("POST", "/v1/profiles", "cyborg:device_profile:create", profile.create,
          body=profile.NewProfile, answer=profile.Shape, status=201, once=True, says="Create a device profile."),
    Route("GET", "/v1/profiles/{ref}", "cyborg:device_profile:get_one", profile.show,
          answer=profile.Shape, says="Show a device profile by name or uuid."),
    Route("DELETE", "/v1/profiles/{ref}", "cyborg:device_profile:delete", profile.delete,
          status=204, says="Delete a device profile by name or uuid."),
    Route("GET", "/v1/flavors", "cantle:flavor:get_all", flavor.list_all,
          query=flavor.FlavorQuery, answer=flavor.Listed, says="List flavors."),
    Route("POST", "/v1/flavors", "cantle:flavor:create", flavor.create,
          body=flavor.NewFlavor, answer=flavor.Shape, status=201, once=True, says="Create a flavor."),
    Route("GET", "/v1/flavors/{ref}", "cantle:flavor:get_one", flavor.show,
          answer=flavor.Shape, says="Show a flavor by name or uuid."),
    Route("DELETE", "/v1/flavors/{ref}", "cantle:flavor:delete", flavor.delete,
          status=204, says="Delete a flavor by name or uuid."),
    Route("GET", "/v1/explain", "cantle:explain:get", explain.show,
          query=explain.ExplainQuery, answer=explain.Shape, says="Say what could serve a request now, and why the rest could not."),
    Route("GET", "/v1/arqs", "cyborg:arq:get_all", v1_arq.list_all,
          query=v1_arq.ArqQuery, answer=v1_arq.Listed, says="List accelerator requests with their reasons."),
    Route("GET", "/v1/arqs/{uuid}", "cyborg:arq:get_one", v1_arq.show,
          answer=v1_arq.Shape, says="Show an accelerator request with its reason and lease."),
    Route("GET", "/v1/events", "cantle:event:get_all", event.list_all,
          query=event.EventQuery, answer=event.Listed, stream=stream.follow,
          says="List what others were told, or are yet to be told; or, as text/event-stream, follow the audit log."),
    Route("GET", "/v1/audit", "cantle:audit:get_all", audit.list_all,
          query=audit.AuditQuery, answer=audit.Listed, says="List who did what to which thing, and when."),
    Route("GET", "/v1/who/{text}", "cantle:who:get", who.show,
          answer=who.Shape, says="Show who has a card or unit, or what an instance, lease or workload has."),
    Route("GET", "/v1/quotas", "cantle:quota:get_all", quota.show,
          query=quota.QuotaQuery, answer=quota.Listed, says="List what projects may have at once, and what they have."),
    Route("PUT", "/v1/quotas/{project}/{resource_class}", "cantle:quota:set", quota.put,
          body=quota.NewQuota, answer=quota.Limited, says="Limit what a project may have of a class at once."),
    Route("GET", "/v1/usage", "cantle:usage:get", usage.show,
          query=usage.UsageQuery, answer=usage.Listed, says="Show unit-hours by project and class."),
    Route("POST", "/v1/leases/{uuid}/renew", "cantle:lease:renew", lease_end.renew,
          body=lease_end.Renewal, answer=lease.Shape, says="Let a lease end at another time, or never."),
    Route("POST", "/v1/leases/{uuid}/force-release", "cantle:lease:force", lease_end.force_release,
          body=lease_end.Force, answer=lease.Shape, says="Give a lease back without waiting for its host."),
    Route("GET", "/v1/leases", "cantle:lease:get_all", lease.list_all,
          query=lease.LeaseQuery, answer=lease.Listed, says="List leases."),
    Route("POST", "/v1/leases", "cantle:lease:create", lease.create,
          body=lease.NewLease, answer=lease.Shape, status=201, once=True, says="Ask for a lease."),
    Route("GET", "/v1/leases/{uuid}", "cantle:lease:get_one", lease.show,
          query=lease.WaitQuery, answer=lease.Shape, says="Show a lease, or wait for it to settle."),
    Route("GET", "/v1/leases/{uuid}/can-move", "cantle:lease:get_one", move.can,
          query=move.CanMoveQuery, answer=explain.Shape, says="Say whether a host could take a lease over now, and why not."),
    Route("POST", "/v1/leases/{uuid}/move", "cantle:lease:move", move.move,
          body=move.Move, answer=lease.Shape, status=202, says="Claim a lease's units on another host, and give back those it has."),
    Route("POST", "/v1/leases/{uuid}/release", "cantle:lease:release", lease.release,
          answer=lease.Shape, status=202, says="Give a lease back."),
    Route("DELETE", "/v1/hosts/{host}", "cantle:host:forget", host.forget,
          status=204, says="Take a host out that lends nothing and is down."),
    Route("POST", "/v1/hosts/{host}/drain", "cantle:host:drain", host.drain,
          answer=host.Shape, says="Lend nothing new on a host."),
    Route("POST", "/v1/hosts/{host}/undrain", "cantle:host:drain", host.undrain,
          answer=host.Shape, says="Lend on a host again."),
    Route("POST", "/v1/hosts/{host}/confirm", "cantle:host:confirm", host.confirm,
          answer=host.Shape, says="Let a frozen host, or another machine under its name, go on."),
    Route("POST", "/v1/hosts/{host}/rename", "cantle:host:rename", host.rename,
          body=host.NewName, answer=host.Shape, says="Let a host go by another name."),
    Route("POST", "/v1/hosts/{host}/invite", "cantle:host:invite", invitation.create,
          body=invitation.NewInvitation, answer=invitation.Shape, status=201,
          says="Make a code with which a machine may join as a host, once."),
    Route("GET", "/v1/tokens", "cantle:token:get_all", token.list_all,
          query=token.TokenQuery, answer=token.Listed, says="List tokens."),
    Route("POST", "/v1/tokens", "cantle:token:create", token.create,
          body=token.NewToken, answer=token.Made, status=201, says="Create a token; its text is in this answer alone."),
    Route("GET", "/v1/tokens/{uuid}", "cantle:token:get_one", token.show,
          answer=token.Shape, says="Show a token."),
    Route("DELETE", "/v1/tokens/{uuid}", "cantle:token:revoke", token.revoke,
          status=204, says="Take a token back."),
)

AGENTS = (
    Route("GET", "/v1/authority", PUBLIC, join.authority,
          answer=Authority, says="Show the certificates of the authority behind this listener's."),
    Route("POST", "/v1/join", "cantle:agent:join", join.accept,
          body=JoinRequest, answer=JoinAnswer, from_agent=True, says="Join as the host of an invitation."),
    Route("PUT", "/v1/hosts/{host}/inventory", "cantle:agent:report", inventory.accept,
          body=InventoryReport, answer=InventoryAnswer, from_agent=True, says="Report a host's inventory."),
    Route("GET", "/v1/hosts/{host}/work", "cantle:agent:work", work.show,
          query=work.WorkQuery, answer=Work, conditional=True, says="Ask for a host's desired state, or wait for it to change."),
    Route("POST", "/v1/hosts/{host}/results", "cantle:agent:results", results.accept,
          body=Results, status=204, from_agent=True, says="Send back what became of the units."),
)

# fmt: on

ACCELERATOR = (*DEVICE_PROFILES, *DEVICES, *DEPLOYABLES, *ATTRIBUTES, *ACCELERATOR_REQUESTS)

#: What clients reach. The description is of all of it, itself included, so it looks when it is asked.
PUBLIC_ROUTES: tuple[Route, ...] = (
    *HEALTH, *DISCOVERY, *description.routes(lambda: PUBLIC_ROUTES), *ACCELERATOR, *OURS,
)  # fmt: skip

#: What agents reach, at a listener of their own.
AGENT_ROUTES = (*HEALTH, *AGENTS)
