"""Events to Nova's ``os-server-external-events`` (contract section 2; Nova and host formats, 3.5)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from keystoneauth1.exceptions import ClientException
from keystoneauth1.identity.base import BaseIdentityPlugin

from cantle.model.event import Answer, Channel, Event, Verdict

#: The first compute microversion that knows ``accelerator-request-bound``.
MICROVERSION = "2.82"

#: Nova answers 422 to an event for an instance whose host is not yet assigned: a matter of moments, while the caller waits.
NOT_YET_S = 1.0


#: What Nova's policy ``context_is_admin`` asks for, unless an operator changed it.
NEEDED_ROLE = "admin"


class NovaReceiver:
    """Sends events in batches over one adapter, whose session keeps its token and its connection.

    :param adapter: a ``keystoneauth1.adapter.Adapter`` for the compute service.
    """

    channel = Channel.NOVA
    batch = 100
    #: No event is given up: it ends when Nova has it, knows no such instance, or the ARQ is unbound or deleted.
    patience_s = float("inf")

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def roles(self) -> frozenset[str] | None:
        """The roles of our login, as Keystone says; None where the login has none (``auth_type = none``).

        Without `NEEDED_ROLE` Nova takes a call by its policy, and then finds in it no instance but those of our own project: 404 for each
        (nova.db.main.api, instance_get_all_by_filters; seen with Nova 34).

        :raises ClientException: it cannot log in.
        """
        auth = self._adapter.auth or self._adapter.session.auth
        if not isinstance(auth, BaseIdentityPlugin):
            return None
        return frozenset(auth.get_access(self._adapter.session).role_names or ())

    def send(self, events: Sequence[Event]) -> list[Verdict]:
        """One verdict for each event, in the same order. Raises nothing for what Nova or the network does."""
        try:
            answer = self._adapter.post(
                "/os-server-external-events",
                json={"events": [json.loads(event.body) for event in events]},
                microversion=MICROVERSION,
                raise_exc=False,
            )
        except ClientException as error:
            return [Verdict(Answer.LATER, f"Nova cannot be reached: {error}")] * len(events)
        if answer.status_code == 200:
            return [Verdict(Answer.DELIVERED)] * len(events)
        if answer.status_code == 207:
            return _each(events, answer)
        if answer.status_code == 400:
            return self._one_by_one(events, answer)
        if answer.status_code == 404:
            # Novas that know this event name unknown instances one by one, in a 207 (their bug 1855752): this is another server.
            why = "404 for the call itself: the compute endpoint in the catalog, or [nova] endpoint_override, is wrong"
            return [Verdict(Answer.LATER, why)] * len(events)
        return [Verdict(Answer.LATER, f"Nova answered {answer.status_code}")] * len(events)

    def _one_by_one(self, events: Sequence[Event], answer: Any) -> list[Verdict]:
        """Nova refuses a whole call for one malformed event: find that one."""
        if len(events) == 1:
            return [Verdict(Answer.REFUSED, f"Nova finds it malformed (400): {answer.text[:500]}")]
        verdicts: list[Verdict] = []
        for event in events:
            verdicts += self.send([event])
            if verdicts[-1].answer is Answer.LATER:  # it is in trouble: leave it alone, and keep within our claim
                break
        return verdicts + [verdicts[-1]] * (len(events) - len(verdicts))


def _each(events: Sequence[Event], answer: Any) -> list[Verdict]:
    """From a 207, which has a code for each event."""
    try:
        codes = {(said["server_uuid"], said["tag"]): said["code"] for said in answer.json()["events"]}
    except (ValueError, KeyError, TypeError):
        return [Verdict(Answer.LATER, "Nova answered 207 in a form that is not its own")] * len(events)
    return [_verdict(codes.get(_key(event))) for event in events]


def _key(event: Event) -> tuple[str, str]:
    body = json.loads(event.body)
    return body["server_uuid"], body["tag"]


_UNKNOWN = (
    "Nova knows no such instance (404), or does not show it to the user of [nova]: it needs the role admin there, "
    "'cantle-status upgrade check' tells"
)


def _verdict(code: object) -> Verdict:
    if code == 200:
        return Verdict(Answer.DELIVERED)
    if code == 422:
        return Verdict(Answer.LATER, "the instance has no host yet (422)", after=NOT_YET_S)
    if code in (400, 404):
        return Verdict(Answer.REFUSED, _UNKNOWN if code == 404 else "Nova finds it malformed (400)")
    return Verdict(Answer.LATER, f"Nova answered {code} for it")
