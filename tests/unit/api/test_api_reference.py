"""The page that describes the API says all that the document says, needs nothing from elsewhere, and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from tests.stories.world import World, fresh_database

from cantle.api import openapi, routes


class Page(HTMLParser):
    """Tags, links and styles of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.anchors: set[str] = set()
        self.open: list[str] = []
        self.style = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See the base class."""
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on")
            if name in ("href", "src"):
                self.addresses.append(value or "")
            if name == "id":
                self.anchors.add(value or "")

    def handle_endtag(self, tag: str) -> None:
        """See the base class."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """See the base class."""
        if self.open and self.open[-1] == "style":
            self.style += data


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """An empty cloud."""
    db = fresh_database(tmp_path_factory.mktemp("reference"))
    yield World(db)
    db.close()


def test_the_page_needs_no_token_and_is_whole(world: World) -> None:
    answer = world.call("GET", "/v1/docs", person="nobody")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    page = Page(answer.text)
    assert page.open == []
    for route in routes.PUBLIC_ROUTES:
        assert re.search(rf">{route.method}</span><span class=\"path\">{re.escape(route.path)}<", answer.text), (
            route.path
        )


def test_nothing_comes_from_elsewhere_and_nothing_runs(world: World) -> None:
    answer = world.call("GET", "/v1/docs")
    page = Page(answer.text)
    assert "script" not in page.tags
    assert {address for address in page.addresses if not address.startswith("#")} == {"openapi.json"}
    assert {address.removeprefix("#") for address in page.addresses if address.startswith("#")} <= page.anchors


def test_the_policy_lets_in_this_style_and_nothing_else(world: World) -> None:
    answer = world.call("GET", "/v1/docs")
    digest = base64.b64encode(hashlib.sha256(Page(answer.text).style.encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert "frame-ancestors 'none'" in policy


def test_the_document_is_served_as_it_is_made(world: World) -> None:
    answer = world.call("GET", "/v1/openapi.json", person="nobody")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == json.loads(json.dumps(openapi.document(routes.PUBLIC_ROUTES)))


def test_every_reference_in_the_document_leads_somewhere() -> None:
    document = openapi.document(routes.PUBLIC_ROUTES)
    known = set(document["components"]["schemas"])
    used = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert used <= known
    assert re.findall(r"#/\$defs|\{name\}", json.dumps(document)) == []
    assert [name for name in known if name.startswith("cantle.")] == []


def test_the_values_an_argument_may_have_are_listed() -> None:
    parameters = openapi.document(routes.PUBLIC_ROUTES)["paths"]["/v1/devices"]["get"]["parameters"]
    (mode,) = [one["schema"] for one in parameters if one["name"] == "mode"]
    assert {"passthrough", "mdev"} <= set(mode["enum"])


def test_items_of_a_collection_may_have_fewer_fields_and_one_thing_by_itself_may_not() -> None:
    schemas = openapi.document(routes.PUBLIC_ROUTES)["components"]["schemas"]
    assert "required" not in schemas["v1.device.Item"]
    assert schemas["v1.device.Item"]["properties"] == schemas["v1.device.Shape"]["properties"]
    assert "mode" in schemas["v1.device.Shape"]["required"]


#: Sums over the cloud, made anew for each call: there is nothing in them whose place a marker could keep.
SUMS = {"/v1/capacity/profiles", "/v1/pools"}


def test_every_collection_of_ours_has_pages_and_fields() -> None:
    listing = [
        one for one in routes.PUBLIC_ROUTES if one.path.startswith("/v1/") and one.handler.__name__ == "list_all"
    ]
    assert len(listing) > 6
    words = {"limit", "marker", "sort_key", "sort_dir", "fields"}
    assert {one.path for one in listing if not words <= set(one.query.__struct_fields__)} - SUMS == set()


def test_every_creating_call_of_ours_may_come_again_but_for_those_whose_answer_is_a_secret() -> None:
    creating = [one for one in routes.PUBLIC_ROUTES if one.path.startswith("/v1/") and one.status == 201]
    secret = {"/v1/tokens", "/v1/hosts/{host}/invite"}
    assert {one.path for one in creating if not one.once} == secret
