"""``nova_client.py NOVA_CONF``: Nova's own client of the accelerator API, driven line by line.

Reads one JSON object a line from standard input, ``{"token", "project_id", "user_id", "catalog", "call", "arguments"}``, calls that
method of ``nova.accelerator.cyborg._CyborgClient`` the way Nova does (a request context with the user's token and catalog; the service
token from ``[service_user]``), and answers one line: ``{"result": …}`` or ``{"error": class name, "message": …}``.
Which Nova it is, ``PYTHONPATH`` decides.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")


def nova(module: str) -> Any:
    """A module of the Nova that is installed here."""
    return importlib.import_module(f"nova.{module}")


def plain(value: Any) -> Any:
    """What JSON can carry of an answer: request groups are Nova's own objects."""
    if hasattr(value, "requester_id"):
        return {
            "requester_id": value.requester_id,
            "resources": dict(value.resources),
            "required_traits": sorted(value.required_traits),
            "forbidden_traits": sorted(value.forbidden_traits),
        }
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def answer(order: dict[str, Any]) -> dict[str, Any]:
    """Carry out one line."""
    context = nova("context").RequestContext(
        user_id=order["user_id"],
        project_id=order["project_id"],
        auth_token=order["token"],
        service_catalog=order["catalog"],
    )
    cyborg = nova("accelerator.cyborg")
    try:
        if order["call"] == "get_device_profile_request_groups":
            result = cyborg.get_device_profile_request_groups(context, *order["arguments"])
        else:
            result = getattr(cyborg.get_client(context), order["call"])(*order["arguments"])
    except Exception as error:  # noqa: BLE001 - whatever Nova raises is what the test wants to see
        return {"error": type(error).__name__, "message": str(error)}
    return {"result": plain(result)}


def main() -> None:
    """Answer until standard input ends."""
    nova("conf").CONF([], project="nova", default_config_files=[sys.argv[1]])
    nova("objects").register_all()
    print(json.dumps({"result": nova("version").version_string()}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


main()
