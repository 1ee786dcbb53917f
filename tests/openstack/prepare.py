"""``python -m tests.openstack.prepare``: MariaDB and RabbitMQ from the distribution, and Glance beside the others in ``.stack/venv``."""

from __future__ import annotations

import hashlib

from tests.openstack import rabbitmq
from tests.openstack.places import HERE
from tests.real import mariadb, prepare
from tests.real.places import HERE as REAL
from tests.real.places import VENV

#: What the tier of real services has not; what comes along is pinned in ``constraints.txt`` of both.
REQUIREMENTS = ("glance",)

_MARK = VENV / ".prepared-openstack"


def main() -> None:
    """Install what is missing. Ends the program with a message when something cannot be installed."""
    mariadb.install()
    rabbitmq.install()
    prepare.venv()
    pins = (REAL / "constraints.txt", HERE / "constraints.txt")
    wanted = hashlib.sha256("\n".join((*REQUIREMENTS, *(pin.read_text() for pin in pins))).encode()).hexdigest()
    if _MARK.exists() and _MARK.read_text() == wanted:
        return
    print(f"test-openstack: installing {', '.join(REQUIREMENTS)} into {VENV} …", flush=True)
    prepare.pip(*(word for pin in pins for word in ("-c", str(pin))), *REQUIREMENTS)
    _MARK.write_text(wanted)


if __name__ == "__main__":
    main()
