"""The guest's side of the harness: a pytest plugin that sends each report to the host, and lets a test ask for something there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.lab.lines import Lines

_ANSWER_SECONDS = 90.0


class Host:
    """The host, as a test in the guest sees it: the channel of docs/kernel-lab.md."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def send_report(self, report: dict[str, Any]) -> None:
        """Hands the host one report of a test's phase."""
        self._lines.send({"report": report})

    def send_collect_error(self, nodeid: str, why: str) -> None:
        """Tells the host that a module could not be imported, and so why its tests send no reports."""
        self._lines.send({"collect": nodeid, "why": why})

    def up(self) -> None:
        """Says that the guest has come up and its pytest has begun."""
        self._lines.send({"up": True})

    def end(self) -> None:
        """Says that no more will come."""
        self._lines.send({"end": True})

    def ask(self, command: str, *, until: str | None = None, **arguments: Any) -> Any:
        """Runs a command on QEMU's monitor (QMP) and returns QEMU's answer.

        :param until: the event that ends it; without one the answer does.
        :raises RuntimeError: with QEMU's words if it refuses.
        """
        self._lines.send({"ask": command, "arguments": arguments, "until": until})
        answer = self._lines.receive(_ANSWER_SECONDS)
        if "refused" in answer:
            raise RuntimeError(f"QEMU refused {command} {arguments}: {answer['refused']}")
        return answer["answer"]


class Reporter:
    """Sends what pytest reports."""

    def __init__(self, config: pytest.Config, host: Host) -> None:
        self._config = config
        self.host = host

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Each phase of each test."""
        self.host.send_report(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that does not import here though it did on the host."""
        if report.failed:
            self.host.send_collect_error(report.nodeid, report.longreprtext)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """The end of the session, however it came."""
        self.host.end()


def pytest_configure(config: pytest.Config) -> None:
    """Opens the channel, before a test module can break anything."""
    host = Host(Lines(_open_channel()))
    host.up()
    config.pluginmanager.register(Reporter(config, host), "lab-reporter")


def _open_channel() -> int:
    """The virtio port of the name that QEMU was given; without udev nothing has made a link of that name."""
    for name_file in Path("/sys/class/virtio-ports").glob("*/name"):
        if name_file.read_text().strip() == "lab":
            return os.open(f"/dev/{name_file.parent.name}", os.O_RDWR)
    raise OSError("this guest has no virtio port named lab: it was not started by the harness")
