"""The host's pytest plugin: starts a guest for each boot and turns what its pytest reports into reports of the host's."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.lab.boots import BOOTS, DEFAULT, Boot
from tests.kernel.lab.guest import Guest, GuestFailed, Lab

_GUEST_TESTS = Path(__file__).parents[1] / "guest"


def is_guest_test(item: pytest.Item) -> bool:
    """Whether a test runs in the guest, which is told by where it stands."""
    return _GUEST_TESTS in item.path.parents


def boot_of(item: pytest.Item) -> Boot:
    """The start of the guest a test belongs to. Raises UsageError for a name that is none."""
    mark = item.get_closest_marker("boot")
    name = mark.args[0] if mark else DEFAULT
    for boot in BOOTS:
        if boot.name == name:
            return boot
    raise pytest.UsageError(
        f"{item.nodeid}: no boot is named {name!r}; tests/kernel/lab/boots.py has {[boot.name for boot in BOOTS]}"
    )


class Running:
    """The tests of one boot while they run in a guest."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._messages = guest.messages()
        self._reports: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._why = "the guest's pytest has ended without running this test"

    def reports(self, nodeid: str) -> list[dict[str, Any]]:
        """The reports of one test's phases, its teardown last. Raises GuestFailed when they cannot come any more."""
        while not any(report["when"] == "teardown" for report in self._reports[nodeid]):
            self._take_next()
        return self._reports.pop(nodeid)

    def _take_next(self) -> None:
        try:
            message = next(self._messages)
        except StopIteration:
            raise GuestFailed(self._why) from None
        except GuestFailed as failure:
            self._why = f"not run, since {str(failure).splitlines()[0]}"
            raise
        if "report" in message:
            self._reports[message["report"]["nodeid"]].append(message["report"])
        else:
            self._why = f"{message['collect']} cannot be imported in the guest:\n{message['why']}"

    def end(self) -> None:
        """Lets the guest write its logs and switch itself off, unless it has failed already. Raises GuestFailed if it cannot."""
        for _ in self._messages:
            pass

    def kill(self) -> None:
        """Ends the guest as it stands."""
        self._guest.kill()


class Harness:
    """Runs the selected guest tests, boot by boot."""

    def __init__(self) -> None:
        self._lab: Lab | None = None
        self._running: Running | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """All tests of a boot together, boots in their order; the rest of the order stays."""
        items.sort(key=lambda item: BOOTS.index(boot_of(item)) if is_guest_test(item) else -1)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Makes the lab before the first test."""
        if session.config.option.collectonly or not any(is_guest_test(item) for item in session.items):
            return
        self.lab(session.config.rootpath)

    def lab(self, checkout: Path) -> Lab:
        """What guests boot from, made on first use. Ends the session when it cannot be made."""
        if self._lab is not None:
            return self._lab
        if os.geteuid() != 0:
            pytest.exit("the kernel lab needs root: the guest reads the host's root file system as its own", 1)
        try:
            self._lab = Lab.prepare(checkout)
        except subprocess.CalledProcessError as error:
            pytest.exit(f"the kernel lab cannot be made: {error}", 1)
        return self._lab

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """The first test of a boot starts it; each takes its reports from there; the last waits for its end."""
        if not is_guest_test(item):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports(item, last=nextitem is None or boot_of(nextitem) != boot_of(item)):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _reports(self, item: pytest.Item, *, last: bool) -> Sequence[pytest.TestReport]:
        reports: list[pytest.TestReport] = []
        try:
            running = self._running = self._running or self._start(item)
            for data in running.reports(item.nodeid):
                reports.append(item.config.hook.pytest_report_from_serializable(config=item.config, data=data))
            if last:
                running.end()
        except GuestFailed as failure:
            reports.append(_failed(item, str(failure)))
        if last:
            self._stop()
        return reports

    def _start(self, item: pytest.Item) -> Running:
        boot = boot_of(item)
        checkout = item.config.rootpath
        nodeids = [other.nodeid for other in item.session.items if is_guest_test(other) and boot_of(other) == boot]
        return Running(Guest(self.lab(checkout), boot, checkout, nodeids))

    def _stop(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running = None

    def pytest_sessionfinish(self) -> None:
        """No guest outlives the session, also one that was cut short."""
        self._stop()


def _failed(item: pytest.Item, why: str) -> pytest.TestReport:
    """A test the guest did not answer for has failed: it never counts as run."""
    return pytest.TestReport(item.nodeid, item.location, keywords={}, outcome="failed", longrepr=why, when="call")
