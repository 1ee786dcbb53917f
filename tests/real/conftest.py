"""What the tests of this tier share: one Keystone and one Cantle for the whole run."""

from __future__ import annotations

import fcntl
import shutil
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.real.accelerator import Accelerator, FakeDevice
from tests.real.cloud import Cloud, Endpoint
from tests.real.keystone import Keystone
from tests.real.neighbours import Neighbours
from tests.real.nova import RELEASES, NovaClient, client
from tests.real.openstack_cli import FLAVOURS, OpenStackCli, command_line
from tests.real.places import RUN, STACK
from tests.real.processes import STARTED, running

_LOG_SIZES = pytest.StashKey[dict[str, int]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Remember how long the services' logs were before a test."""
    item.stash[_LOG_SIZES] = {service.name: service.log_size() for service in STARTED}
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what the services wrote meanwhile."""
    report = yield
    if report.failed:
        before = item.stash[_LOG_SIZES]
        for service in STARTED:
            if service.log_size() > before.get(service.name, 0):
                report.sections.append((service.name, service.log_tail(since=before.get(service.name, 0))))
    return report


@pytest.fixture(scope="session")
def directory() -> Iterator[Path]:
    """Data, configuration and logs of this run, empty at first; one run at a time in a checkout."""
    STACK.mkdir(exist_ok=True)
    with (STACK / "run.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.exit(f"another 'make test-real' runs in this checkout: it holds {lock.name}", returncode=2)
        shutil.rmtree(RUN, ignore_errors=True)
        (RUN / "log").mkdir(parents=True)
        yield RUN


@pytest.fixture(scope="session")
def keystone(directory: Path) -> Iterator[Keystone]:
    """A Keystone that is up."""
    made = Keystone(directory)
    made.create()
    with running(made.service, made.answers):
        yield made


@pytest.fixture(scope="session")
def neighbours() -> Iterator[Neighbours]:
    """A compute and an image service that know whatever they are asked for."""
    with Neighbours() as made:
        yield made


@pytest.fixture(scope="session")
def cloud(keystone: Keystone, neighbours: Neighbours, directory: Path) -> Cloud:
    """The Keystone with people and neighbours in it."""
    made = Cloud(keystone.url)
    made.seed()
    made.publish(Endpoint("nova", "compute", neighbours.compute_url), Endpoint("glance", "image", neighbours.image_url))
    made.write_clouds_yaml(directory / "clouds.yaml")
    return made


@pytest.fixture(scope="session")
def accelerator(directory: Path, cloud: Cloud) -> Iterator[Accelerator]:
    """A Cantle that checks tokens with the Keystone and is in its catalog."""
    made = Accelerator(directory, "cantle", cloud.auth_url)
    cloud.publish(
        Endpoint("cantle", "accelerator", f"{made.url}/v2"),
        Endpoint("cantle", "accelerator", made.url, region="Unversioned"),
    )
    with running(made.service, made.answers):
        yield made


@pytest.fixture(scope="session")
def standalone(directory: Path, cloud: Cloud, neighbours: Neighbours) -> Iterator[Accelerator]:
    """A Cantle that asks nobody; command-line clients find it as the cloud ``standalone``."""
    made = Accelerator(directory, "cantle-standalone")
    cloud.write_clouds_yaml(directory / "clouds.yaml", standalone=(f"{made.url}/v2", neighbours.compute_url))
    with running(made.service, made.answers):
        yield made


@pytest.fixture(scope="session")
def fake(cloud: Cloud, accelerator: Accelerator) -> FakeDevice:
    """The one device there is."""
    api = cloud.api("admin")
    return FakeDevice.found(lambda method, path: api.request(path, method).json())


@pytest.fixture
def new_profile(cloud: Cloud, fake: FakeDevice) -> Iterator[Callable[..., dict[str, Any]]]:
    """Makes a device profile for FPGAs of the fake driver, ``amount`` in each of ``groups`` groups; deleted after the test."""
    made = []

    def make(*, amount: int = 1, groups: int = 1) -> dict[str, Any]:
        group = {"resources:FPGA": str(amount), "trait:CUSTOM_FAKE_DEVICE": "required"}
        name = f"real-{uuid.uuid4().hex[:8]}"
        answer = cloud.api("admin").post("/device_profiles", json=[{"name": name, "groups": [group] * groups}])
        assert answer.status_code == 201, answer.text
        made.append(name)
        body: dict[str, Any] = answer.json()
        return body

    yield make
    for name in made:
        answer = cloud.api("admin").delete("/device_profiles", params={"value": name})
        assert answer.status_code == 204, answer.text


@pytest.fixture
def instance(cloud: Cloud, accelerator: Accelerator) -> Iterator[str]:
    """The uuid of an instance; whatever is bound to it is unbound and deleted after the test, as Nova would."""
    made = str(uuid.uuid4())
    yield made
    answer = cloud.api("nova", service="nova").delete("/accelerator_requests", params={"instance": made})
    assert answer.status_code == 204, answer.text


@pytest.fixture(scope="session", params=RELEASES)
def nova(
    request: pytest.FixtureRequest, cloud: Cloud, accelerator: Accelerator, directory: Path
) -> Iterator[NovaClient]:
    """Nova's client of each release, with service tokens as an operator has to configure it."""
    with client(request.param, cloud, directory) as made:
        yield made


@pytest.fixture(scope="session", params=FLAVOURS)
def openstack(
    request: pytest.FixtureRequest, cloud: Cloud, accelerator: Accelerator, directory: Path
) -> Iterator[OpenStackCli]:
    """The ``openstack`` command with python-openstackclient's own accelerator commands, and with python-cyborgclient's."""
    log = directory / "log" / f"{request.param}.log"
    with command_line(request.param, directory / "clouds.yaml", log) as made:
        yield made
