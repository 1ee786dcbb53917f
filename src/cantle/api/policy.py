"""Whether a caller may do what they ask: oslo.policy over :mod:`cantle.api.rules` and the operator's ``policy.yaml``.

Denied unless a rule allows it. A changed file is taken up without a restart; one that cannot be used is refused at start,
and later leaves the rules in force as they were.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import yaml
from oslo_config import cfg
from oslo_policy import _checks, policy

from cantle.api.rules import PUBLIC, RULES
from cantle.errors import BadConfig, Forbidden, Unavailable
from cantle.model.identity import Identity

_log = logging.getLogger(__name__)

_DEFAULTS = {rule.name: rule.check for rule in RULES}
_SCOPED = {rule.name for rule in RULES if rule.scoped}

#: Answers remembered per set of rules, so that a policy of plain roles costs one dictionary look-up per request.
_MEMORY = 4096


@dataclass(slots=True)
class _InForce:
    """One set of rules and what it answered so far. ``stamp`` tells the file's versions apart."""

    enforcer: policy.Enforcer
    stamp: object
    memorable: bool
    answers: dict[tuple[object, ...], bool] = field(default_factory=dict)


class Policy:
    """The rules in force.

    :param file: the operator's ``policy.yaml``; None for the defaults alone. A file that is not there yet counts as empty.
    :raises BadConfig: ``bad-policy-file``.
    """

    def __init__(self, file: str | None = None) -> None:
        _keep_oslo_from_writing()
        self._file = file
        self._in_force = _load(file, _stamp(file))

    def check(self, rule: str, who: Identity) -> None:
        """Refuse what ``rule`` does not allow ``who``.

        :raises Forbidden: ``policy-denied``; ``project-scope-needed`` for a token that is not scoped to a project.
        """
        if rule == PUBLIC:
            return
        if who.project_id is None and rule in _SCOPED:
            raise Forbidden(
                "project-scope-needed",
                f"{rule} needs a token that is scoped to a project: name one when you log in, as with OS_PROJECT_NAME.",
                rule=rule,
            )
        if not self.allows(rule, who):
            raise Forbidden(
                "policy-denied",
                f"Policy doesn't allow {rule} to be performed. Use a token with a role that may: 'cantle-policy matrix' shows which.",
                rule=rule,
            )

    def allows(self, rule: str, who: Identity) -> bool:
        """Whether ``rule`` allows ``who``; a rule nobody knows allows nobody.

        :raises Unavailable: ``policy-server-away``, where the operator's rules ask another server.
        """
        now = self._fresh()
        if rule not in now.enforcer.rules:
            return False
        if not now.memorable:
            return _ask_elsewhere(now.enforcer, rule, who)
        key = (rule, who.roles, who.project_id, who.user_id, who.is_service)
        answer = now.answers.get(key)
        if answer is None:
            if len(now.answers) >= _MEMORY:
                now.answers.clear()
            answer = now.answers[key] = _ask(now.enforcer, rule, who)
        return answer

    def _fresh(self) -> _InForce:
        stamp = _stamp(self._file)
        if stamp != self._in_force.stamp:
            try:
                self._in_force = _load(self._file, stamp)
            except BadConfig as error:
                _log.error("%s The rules in force stay as they were.", error.message)
                self._in_force.stamp = stamp
        return self._in_force


def _ask_elsewhere(enforcer: policy.Enforcer, rule: str, who: Identity) -> bool:
    """For rules of which some ask another server (``http:``): not remembered, and whatever goes wrong there allows nothing."""
    try:
        return _ask(enforcer, rule, who)
    except Exception as error:
        raise Unavailable(
            "policy-server-away", f"The server that decides about {rule} cannot be asked; try again."
        ) from error


def _ask(enforcer: policy.Enforcer, rule: str, who: Identity) -> bool:
    creds: dict[str, Any] = {
        "user_id": who.user_id,
        "project_id": who.project_id,
        "roles": sorted(who.roles),
        "is_admin": who.is_admin,
        "is_service": who.is_service,
    }
    return bool(enforcer.enforce(rule, {"project_id": who.project_id, "user_id": who.user_id}, creds))


def _stamp(file: str | None) -> object:
    if file is None:
        return None
    try:
        status = os.stat(file)
    except OSError as error:
        return error.errno
    return status.st_mtime_ns, status.st_ino, status.st_size


def _load(file: str | None, stamp: object) -> _InForce:
    overrides = _read(file) if file else {}
    texts = {**_DEFAULTS, **overrides}
    conf = cfg.ConfigOpts()
    conf([], project="cantle", default_config_files=[], default_config_dirs=[])
    enforcer = policy.Enforcer(conf, use_conf=False, default_rule="default")
    rules = policy.Rules.from_dict(texts, "default")
    for name, text in overrides.items():
        if "!" in str(rules[name]) and "!" not in text:
            raise _bad(file, f"the rule '{name}: {text}' cannot be understood. See oslo.policy's language of rules")
    enforcer.set_rules(rules)
    try:
        enforcer.check_rules(raise_on_violation=True)
    except policy.InvalidDefinitionError as error:
        raise _bad(file, f"rules refer to an unknown rule or to themselves: {error}") from error
    asks_others = any("http:" in text or "https:" in text for text in texts.values())
    return _InForce(enforcer, stamp, memorable=not asks_others)


def _read(file: str) -> dict[str, str]:
    try:
        with open(file, encoding="utf-8") as stream:
            content = yaml.safe_load(stream)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise _bad(file, f"it cannot be read: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, Mapping) or not all(isinstance(part, str) for pair in content.items() for part in pair):
        raise _bad(file, "it must be a mapping of rule names to rules, both text")
    for name in content:
        if ":" in name and name not in _DEFAULTS:
            raise _bad(file, f"there is no rule '{name}'. 'cantle-policy list' prints the names")
    return dict(content)


def _bad(file: str | None, problem: str) -> BadConfig:
    return BadConfig("bad-policy-file", f"The policy file {file} cannot be used: {problem}.", file=file)


def _keep_oslo_from_writing() -> None:
    """Give oslo.policy its plug-in checks (``http:``, ``https:``) without its loader, which writes a cache into the home.

    They are imported at first use: most policies have none, and they bring an HTTP client along.
    """
    if _checks.extension_checks is None:
        _checks.extension_checks = {point.name: _late(point) for point in entry_points(group="oslo.policy.rule_checks")}


def _late(point: EntryPoint) -> Callable[..., _checks.Check]:
    def make(kind: str, match: str) -> _checks.Check:
        made: _checks.Check = point.load()(kind, match)
        return made

    return make
