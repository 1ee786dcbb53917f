"""Where this tier keeps things: below ``.stack/`` as the tier of real services does, whose venv it shares."""

from __future__ import annotations

from tests.real.places import CHECKOUT, STACK, VENV

HERE = CHECKOUT / "tests" / "openstack"

#: Programs that run with the Python of the venv, not with the one of the tests.
INSIDE = HERE / "inside"

#: Configuration and logs of one run; emptied when the next one starts, so that a failure can be looked at.
RUN = STACK / "openstack"

#: One run at a time in a checkout.
LOCK = STACK / "openstack.lock"

#: Configuration files that come with Nova and Glance.
ETC = VENV / "etc"
