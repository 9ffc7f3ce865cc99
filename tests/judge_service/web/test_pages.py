"""The frame of every page: policy, structure, files with their hash, errors for people and for programs."""

import gzip
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from starlette.requests import Request

from judge_service.assets import assets, tokens
from judge_service.domain.principal import Principal, Role
from judge_service.security.roles import Permission
from judge_service.web import pages
from judge_service.web.files import address, served

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
TABLE = {
    "paper": ("#ffffff", "#161c23"),
    "ground": ("#f4f6f8", "#0f1419"),
    "ink": ("#17212b", "#e8edf2"),
    "muted": ("#4a5866", "#a9b6c3"),
    "accent": ("#0a58a6", "#7cbcff"),
    "edge": ("#6b7987", "#7f8d9b"),
    "line": ("#cdd5dd", "#36424e"),
    "good": ("#0b6b4f", "#5fd1a8"),
    "warn": ("#8a4b00", "#f0b35a"),
    "bad": ("#b3261e", "#ff8f85"),
    "select": ("#e6f0fa", "#17324d"),
    "mark": ("#fff3c4", "#4a3d00"),
    "j0": ("#1452e0", "#b3cafc"),
    "j1": ("#c87515", "#f9a831"),
    "j2": ("#0aa170", "#2aecb4"),
    "j3": ("#7e3793", "#b42ecd"),
    "j4": ("#3a424c", "#647283"),
    "j5": ("#a0151c", "#d32630"),
}
TEXT = ("ink", "muted", "accent", "good", "warn", "bad")


def luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def request(path: str = "/", principal: Principal | None = None) -> Request:
    state = {} if principal is None else {"principal": principal}
    return Request({"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b"", "state": state})


def test_the_tokens_are_those_of_the_guide_in_both_themes():
    light, dark = tokens()
    assert set(light) == set(dark)
    assert {name: (light[name], dark[name]) for name in TABLE} == TABLE


@pytest.mark.parametrize("theme", [0, 1])
def test_colours_keep_their_contrast(theme):
    colours = tokens()[theme]
    for name in TEXT:
        assert contrast(colours[name], colours["paper"]) >= 6, name
        assert contrast(colours[name], colours["ground"]) >= 6, name
    assert contrast(colours["edge"], colours["paper"]) >= 4.1
    assert contrast(colours["on-accent"], colours["accent"]) >= 6
    for name in colours:
        if re.fullmatch(r"j\d|o-.*", name):
            assert contrast(colours[name], colours["paper"]) >= 3, name


@pytest.mark.parametrize("path", ["/", "/docs"])
async def test_a_page_has_its_frame_and_a_strict_policy(connect, path):
    response = await connect(None).get(path)
    assert response.headers["content-security-policy"] == pages.POLICY
    assert "unsafe" not in pages.POLICY
    text = response.text
    for part in ('<a class="skip" href="#main">', "<header", "<nav", '<main id="main"', 'aria-live="polite"'):
        assert text.count(part) == 1, part
    assert text.count("<h1") == 1
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", text)


async def test_files_are_kept_for_a_year_under_their_hash_only(connect):
    client = connect(None)
    fresh = await client.get(address("site.css"))
    assert fresh.status_code == 200
    assert fresh.headers["content-type"] == "text/css; charset=utf-8"
    assert fresh.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert fresh.content == assets()["site.css"].content
    plain = await client.get("/static/site.css?v=0000000000000000")
    assert plain.headers["cache-control"] == "public, no-cache"
    known = await client.get("/static/site.css", headers={"If-None-Match": f'"x", W/{plain.headers["etag"]}'})
    assert (known.status_code, known.content) == (304, b"")
    other = await client.get("/static/site.css", headers={"If-None-Match": '"x"'})
    assert other.status_code == 200


async def test_files_are_packed_for_those_who_read_that(connect):
    client = connect(None)
    packed = await client.get("/static/vendor/vega.min.js", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == assets()["vendor/vega.min.js"].content
    assert int(packed.headers["content-length"]) < len(packed.content) / 2
    whole = await client.get("/static/vendor/vega.min.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in whole.headers
    assert len(gzip.compress(whole.content)) > 0


@pytest.mark.parametrize("name", ["nothing.css", "../pages.py", "%2e%2e/pages.py", "..%2fpages.py", "", "__init__.py"])
async def test_only_files_of_the_table_are_served(connect, name):
    response = await connect(None).get(f"/static/{name}")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


def test_scripts_of_others_come_with_their_licence_and_name_no_source_map():
    vendored = {name for name in served() if name.startswith("vendor/") and name.endswith(".js")}
    licences = assets()["vendor/LICENSES.txt"].text
    assert vendored == {"vendor/vega.min.js", "vendor/vega-lite.min.js", "vendor/vega-interpreter.js"}
    for name in vendored:
        assert name.removeprefix("vendor/") in licences
        assert "sourceMappingURL" not in served()[name].text
    assert licences.count("Redistribution and use in source and binary forms") == 2


async def test_a_browser_gets_a_page_for_an_error(connect):
    response = await connect(None).get("/nowhere", headers=BROWSER)
    assert response.status_code == 404
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"] == pages.POLICY
    assert response.headers["x-frame-options"] == "DENY"
    assert int(response.headers["content-length"]) == len(response.content)
    assert "<title>Error: Not Found" in response.text
    assert "There is nothing at /nowhere." in response.text
    assert response.headers["x-request-id"] in response.text


async def test_the_text_of_an_error_is_escaped(connect):
    response = await connect(None).get("/<script>alert(1)</script>", headers=BROWSER)
    assert "<script" not in response.text
    assert "&lt;script&gt;alert(1)" in response.text


@pytest.mark.parametrize(("path", "headers"), [("/nowhere", {}), ("/v1/nowhere", BROWSER), ("/v1/keys", BROWSER)])
async def test_programs_and_the_api_keep_problem_documents(connect, path, headers):
    response = await connect(None).get(path, headers=headers)
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["status"] == response.status_code


async def test_a_body_that_is_too_large_is_told_as_a_page_too(connect):
    response = await connect(None).post("/nowhere", headers=BROWSER, content=b"x" * (33 * 1024 * 1024))
    assert response.status_code in (404, 413)
    assert "<title>Error: " in response.text


def test_a_template_that_asks_for_more_than_it_gets_is_an_error():
    with pytest.raises(UndefinedError):
        pages.render(request(), "error.html.j2", title="only this")


@given(st.text(max_size=80))
def test_context_is_text_never_markup(text):
    page = pages.render(
        request(), "error.html.j2", title="t", detail=f"<b>{text}</b>", errors=[], code="c", advice="a", status=400
    )
    assert b"<b>" not in page.body
    assert page.status_code == 400


def test_links_that_need_a_permission_are_shown_to_those_who_have_it(monkeypatch):
    monkeypatch.setattr(pages, "NAVIGATION", (pages.Link("/reports", "Reports", Permission.READ_STATISTICS),))
    lead = Principal(key_id="a" * 12, name="L", role=Role.LEAD)
    annotator = Principal(key_id="a" * 12, name="A", role=Role.ANNOTATE)
    shown = pages.render(request("/reports/x", lead), "index.html.j2").body
    assert b'href="/reports" aria-current="true"' in shown
    assert b"/reports" not in pages.render(request("/", annotator), "index.html.j2").body
    assert b"/reports" not in pages.render(request("/"), "index.html.j2").body
