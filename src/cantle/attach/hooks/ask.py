"""Ask Cantle's agent about a guest that starts or has ended. Installed by ``cantle agent hooks install``; docs/attach.md says what for.

    ask.py --directory DIR --seconds N libvirt NAME OPERATION SUB-OPERATION EXTRA    with the domain's XML on standard input
    ask.py --directory DIR --seconds N lxc starting|ended NAME LEASE NUMBER,NUMBER

It needs nothing but Python's own library, and imports nothing of Cantle: libvirt and LXC hold their guest's lock meanwhile, so it has to
be quick, and to work while Cantle is being upgraded. It speaks to the agent's socket in DIR and to nobody else: a hook that called
libvirt would wait for itself. It ends within N seconds, and always with status 0: no guest is kept from starting by it. A guest without a
lease waits for nobody.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import sys
import syslog
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

_MOMENT = 0.2
#: Bytes of an answer, and of a domain's XML.
_LARGEST = 1 << 20
#: Of a question: see cantle/wire/hook.py.
_LONGEST = 65536
_HEX = re.compile(r"(0x)?[0-9a-fA-F]{1,8}")


def main(argv: Sequence[str]) -> int:
    """Ask, and say what a person should know. Always 0."""
    known = argparse.ArgumentParser(description="Ask Cantle's agent about a guest.")
    known.add_argument("--directory", required=True, help="the directory of the agent's socket")
    known.add_argument("--seconds", type=float, default=10.0, help="how long a guest may be kept waiting")
    known.add_argument("manager", choices=("libvirt", "lxc"))
    known.add_argument("words", nargs="*")
    asked = known.parse_args(argv)
    signal.alarm(int(asked.seconds) + 2)  # whatever happens: the wrapper takes that for an end like any other
    question = _of_libvirt(asked.words) if asked.manager == "libvirt" else _of_lxc(asked.words)
    if question is not None:
        guest = f"{question['kind']}:{question['name']}"
        _talk(asked.directory, question, guest, time.monotonic() + asked.seconds)
    return 0


def _of_libvirt(words: Sequence[str]) -> dict[str, Any] | None:
    """https://libvirt.org/hooks.html: the guest is prepared before anything of it is; released when all of it is gone."""
    name, operation, part = (*words, "", "", "")[:3]
    event = {("prepare", "begin"): "starting", ("release", "end"): "ended"}.get((operation, part))
    if event is None or not name:
        return None
    units = _units(sys.stdin.buffer.read(_LARGEST)) if event == "starting" else []
    return {"event": event, "kind": "libvirt", "name": name, "units": units}


def _units(text: bytes) -> list[str]:
    """Uuids of the mediated devices and addresses of the PCI functions of a domain."""
    try:
        found = ElementTree.fromstring(text).iterfind(".//devices/hostdev/source/address")  # noqa: S314 - libvirt wrote it
    except ElementTree.ParseError:
        return []
    return [unit for unit in (_unit(one.attrib) for one in found) if unit][:256]


def _unit(parts: Mapping[str, str]) -> str:
    if "uuid" in parts:
        return parts["uuid"].lower()
    texts = [parts.get(part, "0") for part in ("domain", "bus", "slot", "function")]
    if "slot" not in parts or not all(_HEX.fullmatch(text) for text in texts):
        return ""
    return "{:04x}:{:02x}:{:02x}.{:x}".format(*(int(text, 16) for text in texts))


def _of_lxc(words: Sequence[str]) -> dict[str, Any] | None:
    """What the container's configuration says; liblxc's own words come after these."""
    event, name, lease, numbers = (*words, "", "", "", "")[:4]
    if event not in ("starting", "ended") or not name:
        return None
    question: dict[str, Any] = {"event": event, "kind": "lxc", "name": name, "lease": lease}
    if event == "starting":
        question["permitted"] = [number for number in numbers.split(",") if number]
    return question


def _talk(directory: str, question: dict[str, Any], guest: str, deadline: float) -> None:
    lent = _lent(directory, question, guest)
    starts = question["event"] == "starting"
    if lent is False or (not starts and lent is None):
        return
    if not starts or lent is None:  # it has ended, or nobody knows: not worth a wait
        deadline = min(deadline, time.monotonic() + 2.0)
    answer, why = _asked(directory, question, deadline, patient=bool(lent) and starts)
    if answer is None:
        if lent and starts:
            _say(
                syslog.LOG_ERR,
                f"{guest} has a lease and starts without Cantle's agent, so its devices may be missing: {why}",
            )
        return
    if answer.get("code"):
        _say(syslog.LOG_ERR, f"{guest}: Cantle's agent: {answer.get('message')} ({answer['code']})")
    for unit in answer.get("units", ()):
        if not unit.get("ready"):
            words = (
                f"{unit.get('uuid')} on {unit.get('device')} is not ready: {unit.get('message')} ({unit.get('code')})"
            )
            _say(syslog.LOG_ERR, f"{guest} starts, and {words}")


def _lent(directory: str, question: Mapping[str, Any], guest: str) -> bool | None:
    """Whether the guest has a lease, as the agent wrote down; None when it has written nothing since the host started."""
    if question.get("lease"):
        return True  # its configuration says so
    try:
        with open(f"{directory}/lent.json", "rb") as file:
            known = json.loads(file.read(16 << 20))
        return guest in known["guests"] or any(unit in known["units"] for unit in question.get("units", ()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _asked(
    directory: str, question: dict[str, Any], deadline: float, *, patient: bool
) -> tuple[dict[str, Any] | None, str]:
    """The answer; or None, and why there is none. ``patient``: wait for an agent that is not there, as while it is restarted."""
    while True:
        try:
            return _once(directory, question, deadline), ""
        except (ConnectionError, FileNotFoundError) as error:
            why = f"it does not listen in {directory} ({error.strerror or error})"
        except TimeoutError:
            return None, "it did not answer in time"
        except (OSError, ValueError) as error:
            return None, f"it cannot be asked: {error}"
        left = deadline - time.monotonic()
        if not patient or left <= 0:
            return None, why
        time.sleep(min(_MOMENT, left))


def _once(directory: str, question: dict[str, Any], deadline: float) -> dict[str, Any]:
    """:raises OSError: as of a socket; ConnectionError also for an answer that ends before it is whole.
    :raises ValueError: an answer that cannot be understood."""
    left = max(0.05, deadline - time.monotonic())
    line = json.dumps({**question, "seconds": max(0.1, left - 0.5)}).encode() + b"\n"
    if len(line) > _LONGEST:
        raise ValueError("the guest has more devices than can be asked about")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(left)
        os.chdir(directory)  # an address has room for 107 bytes
        connection.connect("agent.sock")
        connection.sendall(line)
        answer = json.loads(b"".join(_received(connection, deadline)))
    if not isinstance(answer, dict):
        raise ValueError("its answer is none")  # noqa: TRY004 - of what it says, not of how it is called
    return answer


def _received(connection: socket.socket, deadline: float) -> Iterable[bytes]:
    size = 0
    while True:
        connection.settimeout(max(0.05, deadline - time.monotonic()))
        part = connection.recv(65536)
        if not part and not size:
            raise ConnectionResetError("it closed without an answer")
        size += len(part)
        if size > _LARGEST:
            raise ValueError("its answer is too long")
        yield part
        if not part or part.endswith(b"\n"):
            return


def _say(level: int, words: str) -> None:
    print(words, file=sys.stderr)
    syslog.openlog("cantle-hook", 0, syslog.LOG_DAEMON)
    syslog.syslog(level, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
