"""``cantle-policy``: the policy rules, for operators who write a ``policy.yaml``."""

from __future__ import annotations

import sys
import textwrap
from typing import Any

import click
from oslo_policy import policy as oslo

from cantle.api.policy import Policy
from cantle.api.routes import AGENT_ROUTES, PUBLIC_ROUTES
from cantle.api.rules import PUBLIC, RULES, Rule
from cantle.errors import BadConfig
from cantle.model.identity import Identity
from cantle.model.token import IMPLIED, Role

#: The roles that Keystone's bootstrap makes, and the service role.
ROLES = (Role.ADMIN, Role.MANAGER, Role.MEMBER, Role.READER, Role.SERVICE)

_EXIT_CONFIG = 78


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Show and check who may do what over the API."""


@main.command()
def sample() -> None:
    """Print a policy.yaml with every rule at its default, commented out."""
    click.echo("# Uncomment a rule to change it. Cantle takes the file up when it changes; no restart is needed.\n")
    for rule in RULES:
        for line in textwrap.wrap(rule.description, 100):
            click.echo(f"# {line}")
        for method, path in _operations(rule):
            click.echo(f"# {method}  {path}")
        click.echo(f'#"{rule.name}": "{rule.check}"\n')


@main.command("list")
def list_names() -> None:
    """Print the name of every rule."""
    for rule in RULES:
        click.echo(rule.name)


@main.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False))
def matrix(file: str | None) -> None:
    """Print which role passes which rule, with FILE's overrides if given.

    Each role with those it implies: admin, manager, member, reader. Tokens of Cantle's own have them so, and Keystone's unless
    somebody took its implied roles away.
    """
    policy = _policy(file)
    width = max(len(rule.name) for rule in RULES)
    click.echo(" " * width + "".join(f"  {role:7}" for role in ROLES))
    for rule in RULES:
        if _operations(rule):
            answers = (policy.allows(rule.name, Identity("x", "x", IMPLIED[role])) for role in ROLES)
            click.echo(f"{rule.name:{width}}" + "".join(f"  {'yes' if answer else '-':7}" for answer in answers))


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
def check(file: str) -> None:
    """Say whether FILE can be used; the exit code is 78 if not."""
    _policy(file)
    click.echo(f"{file} can be used.")


def list_rules() -> list[oslo.RuleDefault]:
    """The rules in oslo.policy's form, for its own tools (entry point ``oslo.policy.policies``)."""
    return [_as_oslo(rule) for rule in RULES]


def _operations(rule: Rule) -> list[tuple[str, str]]:
    """The requests a rule guards; none for a building block."""
    if rule.name == PUBLIC:
        return []
    return [(route.method, route.path) for route in (*PUBLIC_ROUTES, *AGENT_ROUTES) if route.rule == rule.name]


def _as_oslo(rule: Rule) -> oslo.RuleDefault:
    operations: Any = [{"method": method, "path": path} for method, path in _operations(rule)]
    if not operations:
        return oslo.RuleDefault(rule.name, rule.check, description=rule.description)
    scopes = ["project"] if rule.scoped else None
    return oslo.DocumentedRuleDefault(rule.name, rule.check, rule.description, operations, scope_types=scopes)


def _policy(file: str | None) -> Policy:
    try:
        return Policy(file)
    except BadConfig as error:
        click.echo(f"{error.code}: {error.message}", err=True)
        sys.exit(_EXIT_CONFIG)
