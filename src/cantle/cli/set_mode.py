"""``cantle device set-mode``: want a card to be something else, or see first what that would take."""

from __future__ import annotations

import sys
from typing import Any

import click

from cantle import errors
from cantle.cli.card import host_option, locate, seen, timeout_option, until_followed, wait_option
from cantle.cli.client import connect
from cantle.cli.output import output_options, print_record, safe
from cantle.cli.prose import folded

#: Those of ``cantle.model.intent.MODES``, known without importing it.
MODES = ("passthrough", "mdev")

COLUMNS = ("hostname", "address", "model", "mode", "intent_state", "intent_reason", "health", "reason")


@click.command("set-mode")
@click.argument("device")
@click.argument("mode", type=click.Choice(MODES))
@host_option
@click.option(
    "--type",
    "type_id",
    metavar="TYPE",
    help="With mdev: the type to make on it. [default: the one its host's configuration enables]",
)
@click.option("--plan", "plan_only", is_flag=True, help="Print the steps and change nothing.")
@wait_option
@timeout_option
@output_options
def set_mode(
    *,
    device: str,
    mode: str,
    host: str | None,
    type_id: str | None,
    plan_only: bool,
    wait: bool,
    timeout: float,
    fmt: str,
    chosen: tuple[str, ...],
) -> None:
    """Bring a card to MODE, and keep it there: after a reboot it is brought there again before anything of it is lent.

    \b
    Examples:
      cantle device set-mode 0000:af:00.0 passthrough --plan
      cantle device set-mode 0000:af:00.0 passthrough
      cantle device set-mode af:00.0 mdev --host gpu1 --type nvidia-223
    """
    client = connect()
    path = locate(client, device, host)
    if plan_only:
        _show_plan(client.get(f"{path}/plan", {"mode": mode, "type": type_id}), fmt, chosen)
        return
    card = client.get(path)
    types = {} if type_id is None else {card["address"]: type_id}
    made = client.put(f"{path}/intent", {"mode": mode, "types": types}, seen(card))
    if wait:
        become = f"{card['hostname']}/{card['address']} to become {mode}"
        card = until_followed(client, path, made["version"], seconds=timeout, become=become)
    else:
        card = client.get(path)
    print_record(card, fmt, columns=COLUMNS, chosen=chosen)


def _show_plan(plan: dict[str, Any], fmt: str, chosen: tuple[str, ...]) -> None:
    """The plan, and as the command's failure why it would be refused."""
    if fmt in ("json", "yaml") or chosen:
        print_record(plan, fmt, chosen=chosen)
    else:
        click.echo(folded("\n".join(map(safe, _lines(plan))), sys.stdout))
    if plan["code"] is not None:
        raise errors.Conflict(plan["code"], plan["message"])


def _lines(plan: dict[str, Any]) -> list[str]:
    types = ", ".join(plan["types"].values())
    wish = plan["mode"] + (f" with {types}" if types else "")
    lines = [f"{plan['hostname']}/{plan['device']}: {plan['current_mode']} -> {wish}"]
    lines += [f"  {number}. {step['sentence']}{_marks(step)}" for number, step in enumerate(plan["steps"], 1)]
    if not plan["steps"] and plan["code"] is None:
        lines.append(f"  no steps: it is in mode {plan['mode']} already")
    lines += [f"warning: {warning}" for warning in plan["warnings"]]
    return [*lines, "Nothing was changed."]


def _marks(step: dict[str, Any]) -> str:
    marks = ["disruptive: whatever uses it now loses it"] if step["disruptive"] else []
    marks += [] if step["reversible"] else ["cannot be taken back"]
    return f" ({'; '.join(marks)})" if marks else ""
