"""Every option with its default, as a file to begin with: ``cantle config sample``. Made from the options themselves."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from oslo_config import cfg

from cantle.conf import api, devices, keeper, nova, placement, webhook
from cantle.model.enabled_types import SECTION_PREFIXES

_WIDTH = 100

#: Sections whose options are another project's.
_OTHERS = """\
[keystone_authtoken]
# How tokens are validated, where [api] auth = keystone: options of keystonemiddleware.
# https://docs.openstack.org/keystonemiddleware/latest/middlewarearchitecture.html#configuration

# [nova] and [placement] take keystoneauth's options too: auth_type, auth_url, username, password, project_name, …
# https://docs.openstack.org/keystoneauth/latest/plugin-options.html
"""


def list_opts() -> list[tuple[str | None, list[cfg.Opt]]]:
    """Every section with its options, each once; also for ``oslo-config-generator --namespace cantle``."""
    sections: dict[str | None, list[cfg.Opt]] = {}
    parts: list[tuple[str | None, list[cfg.Opt]]] = []
    for room in (api, devices, keeper, nova, placement, webhook):
        parts.extend(room.list_opts())
    for section, options in parts:
        listed = sections.setdefault(section, [])
        listed.extend(option for option in options if option.name not in [one.name for one in listed])
    return list(sections.items())


def text() -> str:
    """The file."""
    parts = [
        "# Every option of Cantle with its default. Uncomment what shall be different.\n"
        "# Written by 'cantle config sample', from the options of this version."
    ]
    for section, options in list_opts():
        # A section of a type is an example: as a section it would speak of a type that is not enabled.
        is_example = section is not None and section.startswith(SECTION_PREFIXES)
        parts.append(f"{'#' if is_example else ''}[{section or 'DEFAULT'}]")
        parts += ["\n".join(_described(option)) for option in options]
    return "\n\n".join([*parts, _OTHERS])


def _described(option: Any) -> Iterator[str]:
    for line in textwrap.wrap(" ".join((option.help or "").split()), _WIDTH):
        yield f"# {line}"
    yield f"# ({', '.join(_facts(option))})"
    for choice, about in (getattr(option.type, "choices", None) or {}).items():
        yield from textwrap.wrap(
            f"{choice}: {about}" if about else str(choice), _WIDTH, initial_indent="#   ", subsequent_indent="#     "
        )
    if isinstance(option, cfg.MultiOpt):
        yield f"#{option.name} ="
    else:
        yield f"#{option.name} = {_value(option.default)}".rstrip()


def _facts(option: Any) -> Iterator[str]:
    yield "may stand several times" if isinstance(option, cfg.MultiOpt) else _kind(option)
    for name, words in (("min", "from"), ("max", "to")):
        bound = getattr(option.type, name, None)
        if bound is not None:
            yield f"{words} {bound}"
    if option.secret:
        yield "secret"
    if option.default is None:
        yield "not set by default"


def _kind(option: Any) -> str:
    return {
        cfg.BoolOpt: "true or false",
        cfg.IntOpt: "whole number",
        cfg.FloatOpt: "number",
        cfg.ListOpt: "list, separated by commas",
        cfg.DictOpt: "key:value, separated by commas",
        cfg.URIOpt: "URL",
    }.get(type(option), "text")


def _value(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, (list, tuple)):
        return ",".join(map(str, default))
    if isinstance(default, dict):
        return ",".join(f"{key}:{value}" for key, value in default.items())
    return "" if default is None else str(default)
