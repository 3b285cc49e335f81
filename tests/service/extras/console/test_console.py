"""The console as a person meets it: over HTTP through a front process, and in a real browser."""

import html
import itertools
import json
import re
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from gpu.algorithms import ALGORITHMS
from service.api.door.rate_limit import N_FAILURES
from service.cli.client import Client
from service.extras.console.pages import when
from tests import browser
from tests.browser import Browser
from tests.service.extras.console.visitor import ADMIN_KEY, Visitor
from tests.service.planted import events, liking
from tests.service.process import Service
from tests.service.waiting import eventually

HOSTILE = "<script>alert('1')</script>/../\"&?id=x#y%2F"
PAGES = (
    "users",
    "items",
    "items?search=nothing",
    "overview",
    "models",
    "jobs",
    "imports",
    "experiments",
    "schedules",
    "access",
    "user?id=u3&without=i4",
    "item?id=i1",
    "search?id=nobody",
)
TRAINING = {"algorithm": "esgd", "then": "forced", "param.n_factors": "4", "param.n_epochs": "3"}

# Tables that have to be scrolled; ids without a break are ours.
SCROLLED = """Array.from(document.querySelectorAll('.wide, .cards'))
    .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"""
YEARLY, LISTS = "0 3 1 1 * train esgd", f"30 5 1 1 * lists {HOSTILE}"
SMALL = {"algorithm": "esgd", "params": {"n_factors": 4, "n_epochs": 2}, "force": True}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("console") / "data"
    settings = {"admin_key": ADMIN_KEY, "data_sets": "films", "backend": "host", "retrain_share": 0}
    settings |= {"quota_items": 400, "quota_training_minutes": 90.5}
    settings["schedules"] = f"{YEARLY}; {LISTS}"
    service = Service(data, fronts=1, trusted_proxies="127.0.0.0/8", **settings)
    service.rate(*[(one.user, one.item, liking(int(one.user[1:]), int(one.item[1:]))) for one in events(24, 30)])
    service.rate((HOSTILE, HOSTILE, 5.0), (HOSTILE, "i1", 1.0), ("u1", HOSTILE, 4.0), ("both", "both", 2.0))
    attributes = {"item": HOSTILE, "tags": {HOSTILE: [HOSTILE]}, "numbers": {"price": 9.99}, "until": 1e10}
    assert service.client.post("/items", json=attributes).json()["accepted"] == 1
    yield service
    service.kill()


@pytest.fixture(scope="module")
def api(service: Service) -> Iterator[Client]:
    """A program with the admin key."""
    with Client(str(service.client.base_url), ADMIN_KEY) as client:
        yield client


@pytest.fixture(scope="module")
def admin(service: Service) -> Iterator[Visitor]:
    """Somebody who has signed in."""
    with Visitor(str(service.client.base_url)) as visitor:
        assert visitor.sign_in().headers["location"] == "overview"
        yield visitor


@pytest.fixture
def stranger(service: Service) -> Iterator[Visitor]:
    with Visitor(str(service.client.base_url)) as visitor:
        yield visitor


@pytest.fixture(scope="module")
def job(admin: Visitor, api: Client) -> dict[str, Any]:
    """A training that the form has begun, at its end."""
    sent = admin.submit("retrain", **TRAINING)
    assert (sent.status_code, sent.headers["location"][:7]) == (303, "job?id=")
    return api.ended_job(sent.headers["location"].removeprefix("job?id="))


def text_of(answer: httpx.Response) -> str:
    """What a person reads."""
    return html.unescape(re.sub(r"<[^>]*>", "", answer.text))


def test_only_who_has_signed_in_sees_a_page(stranger):
    assert stranger.get("/console").headers["location"] == "console/overview"
    for page in (*PAGES, "models-now", "parameters?algorithm=als", "nothing", ""):
        answer = stranger.get(f"/console/{page}")
        assert (answer.status_code, answer.headers["location"]) == (303, "login"), page
    partial = stranger.get("/console/jobs-now", headers={"hx-request": "true"})
    assert (partial.status_code, partial.headers["hx-redirect"], partial.text) == (204, "login", "")
    counts = stranger.get("/console/counts", headers={"accept": "application/json"})
    assert (counts.status_code, counts.json()["type"]) == (401, "urn:nearfield:problem:not-authorized")
    assert stranger.get("/console/static/console.js").status_code == 200
    assert stranger.get("/console/static/..%2Froutes.py").status_code == 404


def test_the_cookie_is_for_this_console_alone(stranger):
    signed_in = stranger.sign_in()
    cookie = signed_in.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
    assert "Max-Age=28800" in cookie
    assert not re.search(r"(?i)secure|path=|domain=", cookie)
    assert [one.path for one in stranger.cookies.jar] == ["/console", "/console"]
    assert ADMIN_KEY not in cookie
    assert stranger.open("overview").status_code == 200
    secure = stranger.post("/console/logout", data={"token": stranger.token()}, headers={"x-forwarded-proto": "https"})
    assert {"Secure", "Max-Age=0"} <= set(secure.headers["set-cookie"].split("; "))
    assert stranger.open("overview").headers["location"] == "login"


def test_who_signs_out_ends_the_session_for_all_who_have_its_cookie(service, stranger, admin):
    stranger.sign_in()
    kept = {"cookie": f"nearfield_console={stranger.cookies['nearfield_console']}"}
    with Visitor(str(service.client.base_url)) as thief:
        assert thief.get("/console/overview", headers=kept).status_code == 200
        assert stranger.submit("logout").headers["location"] == "login"
        for page in ("overview", "jobs-now"):
            assert thief.get(f"/console/{page}", headers=kept).headers["location"] == "login"
        refused = thief.get("/console/counts", headers=kept | {"accept": "application/json"})
        assert refused.status_code == 401
    assert admin.open("overview").status_code == 200, "another session of the same key"


@pytest.mark.parametrize("key", ["", "key-of-the-admin", ADMIN_KEY + "\x00", "é" * 20])
def test_a_wrong_key_is_refused_as_text(stranger, key):
    refused = stranger.sign_in(key)
    assert refused.status_code == 401
    assert "Invalid key: expected a key of this service" in text_of(refused)
    assert stranger.open("overview").status_code == 303


def test_who_fails_too_often_has_to_wait_and_nobody_else(stranger):
    """The address counts, in a session of its own or not; the right key does not help meanwhile."""
    addresses = itertools.count(1)

    def guesses_and_the_right_key() -> httpx.Response | None:
        """The answer to the right key, unless so much time has passed that it may be tried."""
        stranger.headers["x-forwarded-for"] = f"198.51.100.{next(addresses)}"
        statuses = [stranger.sign_in(f"a-wrong-key-{number}").status_code for number in range(N_FAILURES)]
        assert statuses == [401] * N_FAILURES
        stranger.cookies.clear()
        answer = stranger.sign_in()
        return None if answer.status_code == 303 else answer

    refused = eventually(guesses_and_the_right_key)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert "wrong keys per second; try again in" in text_of(refused)
    stranger.headers["x-forwarded-for"] = "192.0.2.8"
    assert stranger.sign_in().status_code == 303


def test_made_keys_of_admins_open_it_until_they_are_revoked(stranger, api):
    reader, maker = (api.post("/admin/keys", {"name": "x", "scope": scope}) for scope in ("read", "admin"))
    eventually(lambda: "may admin" in text_of(stranger.sign_in(reader["key"])))
    eventually(lambda: stranger.sign_in(maker["key"]).status_code == 303)
    assert stranger.open("models").status_code == 200
    assert api.http.delete(f"/admin/keys/{maker['id']}").status_code == 200
    eventually(lambda: stranger.open("models").status_code == 303)


def test_the_page_of_access_has_keys_and_the_audit_log(stranger, api, service):
    hostile = "<b onload=x>shop & front</b>"
    body = {"name": hostile, "scope": "admin", "data_sets": ["default"], "expires": "2099-12-31"}
    made = api.post("/admin/keys", body)
    eventually(lambda: stranger.sign_in(made["key"]).status_code == 303)
    assert "shop" not in text_of(stranger.open("access")), "a key for some data sets does not see the keys"
    assert stranger.sign_in().status_code == 303
    answer = stranger.open("access")
    for shown in (hostile, made["id"], "2099-12-31 00:00:00", "make_key", f"key {made['id']}", "sign_in", "admin_key"):
        assert shown in text_of(answer)
    assert made["key"] not in answer.text
    assert re.search(r"20\d\d-\d\d-\d\d [\d:]{8}", text_of(answer).partition("2099-12-31 00:00:00")[2]), "last use"
    for number in range(60):
        api.http.put(f"/admin/items/i{number}/hidden")
        api.http.delete(f"/admin/items/i{number}/hidden")
    older = re.search(r'href="access\?cursor=([^"]+)"', stranger.open("access").text)
    assert older is not None
    assert "item i34" in text_of(stranger.get(f"/console/access?cursor={older[1]}"))
    assert "Invalid cursor" in text_of(stranger.open("access", cursor="x"))
    assert api.http.delete(f"/admin/keys/{made['id']}").status_code == 200


@pytest.mark.parametrize("action", ["login", "logout", "retrain", "activate", "cancel", "undo"])
def test_a_form_without_the_token_of_the_session_is_refused(admin, stranger, action):
    stranger.open("login")
    for token in ({}, {"token": ""}, {"token": "é"}, {"token": stranger.token("login")}):
        refused = admin.post(f"/console/{action}", data={**TRAINING, **token})
        assert (refused.status_code, refused.headers["content-type"]) == (403, "text/html; charset=utf-8")
        assert "Invalid token: expected that of your session" in text_of(refused)
    assert admin.open("overview").status_code == 200


def test_forms_are_taken_by_the_console_alone(admin):
    fields = {"token": admin.token(), **TRAINING}
    assert admin.post("/console/retrain", json=fields).status_code == 415
    assert admin.post("/admin/retrain", data=fields, headers={"X-API-Key": ADMIN_KEY}).status_code == 415
    many = "&".join(f"f{number}=1" for number in range(300)).encode()
    headers = {"content-type": "application/x-www-form-urlencoded"}
    for body in (many, b"\xff"):
        refused = admin.post("/console/retrain", content=body, headers=headers)
        assert (refused.status_code, "Invalid form" in refused.text) == (422, True)


def test_a_forged_cookie_is_that_of_a_stranger(stranger, admin):
    ours = next(one.value for one in admin.cookies.jar if one.name == "nearfield_console")
    for value, status in ((ours, 200), (ours[:-2] + "AA", 303), ("x", 303)):
        answer = stranger.get("/console/overview", headers={"cookie": f"nearfield_console={value}"})
        assert answer.status_code == status


@pytest.mark.parametrize("page", [*PAGES, "nothing", "login", "counts"])
def test_every_answer_has_the_headers_that_protect_it(admin, page):
    headers = admin.get(f"/console/{page}").headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src", "form-action")} == {"'self'"}
    assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "same-origin")
    assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")


@pytest.mark.parametrize("page", PAGES)
def test_pages_have_no_inline_script_or_style_and_name_no_other_host(admin, page):
    text = admin.get(f"/console/{page}").text
    assert not re.search(r"<style|<script>|\sstyle=|\son\w+=|javascript:|https?://", text)
    files = re.findall(r'(?:src|href)="(static/[^"]+)"', text)
    assert len(files) >= 3
    for file in files:
        answer = admin.get(f"/console/{html.unescape(file)}")
        assert (answer.status_code, "immutable" in answer.headers["cache-control"]) == (200, True)


class Labels(HTMLParser):
    """What tells people who see no picture of a page, or a narrow one, what something is.

    Attributes:
        n_titles: headings of the first rank.
        unlabeled: names of fields without a label.
        columns: for each table the names of its columns, and those that its cells give themselves.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.n_titles, self.unlabeled, self.columns = 0, list[str](), list[tuple[list[str], list[list[str | None]]]]()
        self._labels, self._is_head = 0, False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.n_titles += tag == "h1"
        self._labels += tag == "label"
        self._is_head = tag == "th"
        is_field = tag in ("input", "select") and values.get("type") != "hidden"
        if is_field and not self._labels and not values.get("aria-label"):
            self.unlabeled.append(str(values.get("name")))
        if tag == "table":
            self.columns.append(([], []))
        elif tag == "tr" and self.columns[-1][0]:
            self.columns[-1][1].append([])
        elif tag == "td":
            self.columns[-1][1][-1].append(values.get("data-column"))

    def handle_endtag(self, tag: str) -> None:
        self._labels -= tag == "label"
        self._is_head &= tag != "th"

    def handle_data(self, data: str) -> None:
        if self._is_head:
            self.columns[-1][0].append(data)


@pytest.mark.parametrize("page", [*PAGES, "login"])
def test_fields_have_labels_and_the_cells_of_cards_the_names_of_their_columns(admin, job, page):
    text = admin.get(f"/console/{page}").text
    labels = Labels(text)
    assert (labels.n_titles, labels.unlabeled) == (1, [])
    kinds = re.findall(r"<table( class=\"cards\")?>", text)
    for is_cards, (heads, rows) in zip(kinds, labels.columns, strict=True):
        for row in rows if is_cards else ():
            assert row == [None, *heads[1 : len(row)]]


def test_empty_pages_say_what_to_do(admin, service):
    assert "Words within titles are not searched" in text_of(admin.open("items", search="nothing"))
    assert "No title of an item begins so either." in text_of(admin.open("search", id="nobody"))
    with Visitor(f"{service.client.base_url}/d/films") as films:
        assert films.sign_in().status_code == 303
        assert "nearfield import FILE" in text_of(films.open("users"))
        assert "POST /items" in text_of(films.open("items"))
        assert "The form below trains one." in text_of(films.open("models"))


@pytest.mark.parametrize("kind", ["user", "item", "search"])
def test_hostile_ids_are_text(admin, job, kind):
    answer = admin.open(kind, id=HOSTILE)
    assert answer.status_code == 200
    assert "<script>" not in answer.text
    assert HOSTILE in text_of(answer)
    assert f'"{kind if kind == "user" else "item"}?id={quote(HOSTILE, safe="")}' in answer.text or kind != "search"
    other = admin.open("item" if kind == "user" else "user", id="i1" if kind == "user" else "u1")
    assert "<script>" not in other.text


def test_ids_lead_to_their_pages(admin):
    assert admin.open("search", id="u1").headers["location"] == "user?id=u1"
    assert admin.open("search", id="i1").headers["location"] == "item?id=i1"
    assert all(link in admin.open("search", id="both").text for link in ('"user?id=both"', '"item?id=both"'))
    nobody = text_of(admin.open("search", id="nobody"))
    assert "user 'nobody' has no ratings" in nobody
    assert "item 'nobody' has neither ratings nor attributes" in nobody


def test_an_item_has_attributes_neighbors_and_bars(admin, job):
    shown = text_of(admin.open("item", id=HOSTILE))
    assert all(part in shown for part in (HOSTILE, "9.99", "2286-11-20 17:46:40", "available"))
    listed = admin.open("item", id="i1")
    ratings = api_ratings(admin, "i1")
    for value in set(ratings):
        assert f"{value:g} {ratings.count(value)}" in " ".join(text_of(listed).split())
    neighbors = admin.get("/items/i1/neighbors", headers={"X-API-Key": ADMIN_KEY}).json()["neighbors"]
    assert all(f'"item?id={one["item"]}"' in listed.text for one in neighbors if one["item"] != HOSTILE)


def api_ratings(admin: Visitor, item: str) -> list[float]:
    answer = admin.get(f"/items/{item}/ratings", headers={"X-API-Key": ADMIN_KEY}).json()
    return [one["rating"] for one in answer["ratings"]]


def test_a_user_has_a_list_with_reasons_and_a_list_without_a_rating(admin, job, api):
    listed = api.get("/recommend/u1", explain="true")
    shown = admin.open("user", id="u1")
    assert re.findall(r'class="line"><span><a class="id" href="item\?id=(\w+)"', shown.text) == [
        one["item"] for one in listed["items"] if one["item"] != HOSTILE
    ]
    assert shown.text.count('class="bar') == sum(len(one["reasons"]) for one in listed["items"])
    without = admin.open("user", id="u1", without="i3")
    imagined = api.post("/recommend/u1", {"ratings": [{"item": "i3", "rating": None}]})
    assert re.findall(r'class="line"><span><a class="id" href="item\?id=(\w+)"', without.text) == [
        one["item"] for one in imagined["items"] if one["item"] != HOSTILE
    ]
    assert "As if i3 were not rated" in text_of(without)


def test_a_user_has_attributes(admin, api):
    assert "paying customers" not in admin.open("user", id="u2").text
    changed = api.request(
        "PUT", "/users/u2", json={"tags": {"segment": ["paying customers", "<b>"]}, "numbers": {"n": 7}}
    )
    api.wait_for(changed["stream_id"])
    shown = admin.open("user", id="u2").text
    assert "<dt>segment</dt><dd>paying customers, &lt;b&gt;</dd>" in shown
    assert "<dt>n</dt><dd>7</dd>" in shown


def test_titles_stand_for_ids_and_lists_lead_to_users_and_items(admin, api):
    named = [
        {
            "item": "i1",
            "title": "The <b>Lamp</b>",
            "url": "https://shop.example/?a=1&b=2",
            "image": "http://img.example/1",
        },
        {"item": "i3", "title": "the Rug"},
    ]
    api.wait_for(api.patch_items(named)["stream_id"])
    try:
        user, item = admin.open("user", id="u1").text, admin.open("item", id="i1").text
        assert 'title="i1" href="item?id=i1">The &lt;b&gt;Lamp&lt;/b&gt;</a>' in user
        assert 'title="i3" href="item?id=i3">the Rug</a>' in user
        assert "<h1>The &lt;b&gt;Lamp" in item
        assert '<a href="https://shop.example/?a=1&amp;b=2" rel="noopener noreferrer">' in item
        listed = admin.open("items", search="THE").text
        assert re.findall(r'href="item\?id=(\w+)"', listed) == ["i1", "i3"]
        assert admin.open("search", id="the r").headers["location"] == "items?search=the%20r"
    finally:
        nothing = [{"item": one["item"], "title": None, "url": None, "image": None} for one in named]
        api.wait_for(api.patch_items(nothing)["stream_id"])
    for page in ("users", "items"):
        seen, text = set[str](), admin.open(page).text
        while True:
            seen |= set(re.findall(rf'href="{page[:-1]}\?id=(\w+)"', text))
            more = re.search(rf'href="{page}\?cursor=(\w+)"', text)
            if more is None:
                break
            text = admin.open(page, cursor=more[1]).text
        assert seen >= {f"{page[0]}1", f"{page[0]}2"}


def test_a_user_has_events_with_their_strengths(admin, api):
    assert "Strength" not in text_of(admin.open("user", id="u1"))
    events = [
        ("seer", "i1", "purchase"),
        ("seer", "i1", "view"),
        ("seer", "i2", "dislike"),
        ("seer", "i3", "impression"),
    ]
    names = "user", "item", "type"
    api.wait_for(api.send_events([dict(zip(names, event, strict=True)) for event in events])["stream_id"])
    shown = admin.open("user", id="seer").text
    assert "Of 3 items, the newest first." in shown
    strengths = dict(re.findall(r'href="item\?id=(\w+)"[^>]*>\w+</a></td><td>([^<]*)</td>', shown))
    assert {item: strengths[item].replace("\u2212", "-") for item in ("i1", "i2", "i3")} == {
        "i1": "11",
        "i2": "-2",
        "i3": "only seen",
    }


def test_the_overview_has_bars_of_the_quotas_that_were_set(admin):
    shown = admin.open("overview").text
    bars = re.findall(r'quota_(\w+)</code></dt>\s*<dd><meter value="([\d.]+)" max="([\d.]+)"', shown)
    assert [(name, float(most)) for name, _, most in bars] == [("items", 400), ("training_minutes", 90.5)]
    n_items = int(float(bars[0][1]))
    assert n_items > 30
    assert f"{n_items} of 400, {n_items / 4:.3g} %" in text_of(admin.open("sizes"))
    assert "of 90.5 minutes, " in text_of(admin.open("sizes"))


def test_errors_of_the_service_are_text(admin):
    for page, status, text in (
        ("user?id=", 422, "expected 1 to 256 bytes, got 0"),
        ("job?id=nothing", 404, "nothing"),
        ("experiments?id=nothing", 404, "nothing"),
        ("elsewhere", 404, "expected a page of the console"),
    ):
        answer = admin.get(f"/console/{page}")
        assert (answer.status_code, text in text_of(answer)) == (status, True), page
    unknown = admin.get("/console/user?id=stranger")
    assert (unknown.status_code, "Unknown user: user 'stranger' has no ratings" in text_of(unknown)) == (200, True)
    refused = admin.submit("activate", version="als-20200101T000000-aaaa")
    assert (refused.status_code, "als-20200101T000000-aaaa" in text_of(refused)) == (404, True)
    for fields in ({"algorithm": "magic"}, {"param.n_factors": "0"}, {"param.n_neurons": "1"}, {"then": "both"}):
        refused = admin.submit("retrain", **(TRAINING | fields))
        assert (refused.status_code, "Invalid" in text_of(refused)) == (422, True)


def test_a_form_becomes_a_job_with_its_parameters(job, admin, api):
    assert (job["state"], job["promoted"], job["params"]) == ("succeeded", True, {"n_factors": 4, "n_epochs": 3})
    page = text_of(admin.open("job", id=job["id"]))
    assert all(text in page for text in ("succeeded", "100 %", "n_factors", job["version"]))
    assert admin.open("job-now", id=job["id"]).status_code == 286, "else the page would ask for ever"
    assert job["id"] in text_of(admin.open("jobs"))
    models = admin.open("models")
    assert job["version"] in text_of(models)
    parameters = admin.open("parameters", algorithm="esgd").text
    assert 'name="param.learning_rate"' in parameters
    assert ALGORITHMS["esgd"].learns in parameters
    assert "Invalid algorithm: expected" in text_of(admin.open("parameters", algorithm="magic"))


def test_a_model_is_rolled_back(job, admin, api):
    again = api.ended_job(api.post("/admin/retrain", SMALL)["id"])
    assert "Roll back…" in admin.open("models").text
    asked = text_of(admin.open("activate", version=job["version"]))
    assert f"Roll back to {job['version']}?" in asked
    assert f"It takes the place of {again['version']}" in asked
    assert admin.submit("activate", version=job["version"]).headers["location"] == "models"

    def way_back(page: str = "models-now") -> list[str]:
        return re.findall(r'before: .*<a href="activate\?version=([^"]+)">activate again…', admin.open(page).text)

    eventually(lambda: way_back() == [again["version"]])
    live = {one["version"] for one in api.get("/admin/models")["models"] if one["live"]}
    assert live == {job["version"]}
    assert way_back("models") == [again["version"]], "it lasts"
    for gone in (job["version"], "esgd-20260101T000000-aaaa"):  # live by now, or not on disk
        assert admin.open("activate", version=gone).headers["location"] == "models"
    assert admin.submit("cancel", job=again["id"]).headers["location"] == f"job?id={again['id']}"


def test_an_import_is_taken_back_after_it_was_counted(admin, api):
    name = "file:<wrong>&.csv"
    ratings = [{"user": "u1", "item": "wrong", "rating": 2}, {"user": "u1", "item": "i3", "rating": 4}]
    sent = api.http.post("/ratings", json=ratings, headers={"X-Source": name, "X-Offset": "1"})
    events = [{"user": "u1", "item": "i2", "type": "view"}]
    sent = api.http.post("/events", json=events, headers={"X-Source": name, "X-Offset": "2"})
    api.wait_for(sent.json()["stream_id"])
    before = api.get("/users/u1/ratings")["ratings"]
    listed = admin.open("imports")
    assert "<wrong>" not in listed.text
    assert name in text_of(listed)
    forms = re.findall(r'action="undo">(.*?)</form>', listed.text)
    fields = {key: html.unescape(value) for key, value in re.findall(r'name="(\w+)" value="([^"]*)"', forms[0])}
    assert (fields["source"], fields["dry_run"]) == (name, "1")
    key = fields["key"]  # empty if the service had no made key when the source came
    counted = admin.post("/console/undo", data=fields).headers["location"].removeprefix("job?id=")
    assert api.ended_job(counted)["state"] == "succeeded"
    asked = admin.open("job-now", id=counted)
    assert asked.status_code == 286
    shown = " ".join(text_of(asked).split())
    assert "Ratings to take back2: 1 of pairs without a rating before, 1 that replaced one, which comes back" in shown
    assert "Events to take back0Events that stay1, without an event_id" in shown
    assert api.get("/users/u1/ratings")["ratings"] == before, "nothing is done yet"
    fields = {key: html.unescape(value) for key, value in re.findall(r'name="(\w+)" value="([^"]*)"', asked.text)}
    assert fields == {"token": fields["token"], "source": name, "key": key}
    done = admin.post("/console/undo", data=fields).headers["location"].removeprefix("job?id=")
    assert api.ended_job(done)["state"] == "succeeded"
    shown = " ".join(text_of(admin.open("job", id=done)).split())
    assert "Ratings taken back2:" in shown
    assert 'id="undo"' not in admin.open("job", id=done).text
    assert "taken back ratings\xa02 events\xa00" in " ".join(text_of(admin.open("jobs")).split(" "))
    eventually(lambda: "wrong" not in {one["item"] for one in api.get("/users/u1/ratings")["ratings"]})
    eventually(lambda: name not in text_of(admin.open("imports")))  # it is forgotten, and counts again
    assert ("undo_source", f"job {done}") in {
        (one["action"], one["object"]) for one in api.get("/admin/audit")["entries"]
    }


def test_schedules_show_what_comes(admin, api):
    shown = admin.open("schedules")
    assert "<script>" not in shown.text
    text, listed = text_of(shown), api.get("/admin/schedules")["schedules"]
    assert [each["schedule"] for each in listed] == [YEARLY, LISTS]
    for each in listed:
        assert each["schedule"] in text
        assert when(each["next_ms"] / 1000) in text


def test_an_experiment_shows_its_rates(job, admin, api):
    second = api.ended_job(api.post("/admin/retrain", {**SMALL, "name": "two"})["id"])
    assert second["state"] == "succeeded"
    arms = [{"model": "esgd", "share": 50}, {"model": "two", "share": 50}]
    put = api.http.put(f"/admin/experiments/{quote(HOSTILE, safe='')}", json={"arms": arms})
    api.wait_for(put.json()["stream_id"])
    for user in range(8):
        listed = api.get(f"/recommend/u{user}", experiment=HOSTILE)
        event = {"user": f"u{user}", "item": "i1", "type": "purchase", "recommendation_id": listed["recommendation_id"]}
        last = api.send_events(event)
    api.wait_for(last["stream_id"])
    answer = admin.open("experiments")
    assert "<script>" not in answer.text
    report = api.get(f"/admin/experiments/{quote(HOSTILE, safe='')}")
    for arm in report["arms"]:
        rate = arm["types"]["purchase"]
        assert f"{100 * rate['low']:.3g} % to {100 * rate['high']:.3g} %" in text_of(answer)


def test_a_data_set_has_a_console_of_its_own(service, admin):
    with Visitor(f"{service.client.base_url}/d/films") as visitor:
        assert visitor.get("/console").headers["location"] == "console/overview"
        assert visitor.open("overview").headers["location"] == "login"
        visitor.sign_in()
        assert {one.path for one in visitor.cookies.jar} == {"/d/films/console"}
        page = visitor.open("overview")
        assert (page.status_code, "films" in text_of(page)) == (200, True)
        assert "All is well: the service is ready, no job has failed, no alert fires." in text_of(page)
        eventually(lambda: visitor.open("history").json() != [])
        assert visitor.open("history").json()[0].keys() == visitor.open("counts").json().keys()
        below_0 = [{"user": "u", "item": "i", "rating": -1.0}, {"user": "v", "item": "i", "rating": 2.0}]
        api_of_films = {"X-API-Key": ADMIN_KEY}
        assert visitor.post("/ratings", json=below_0, headers=api_of_films).json()["accepted"] == 2
        job = visitor.submit("retrain", algorithm="nmf", then="live").headers["location"].removeprefix("job?id=")
        reason = f'<a href="job?id={job}">train nmf</a>: Invalid'
        eventually(lambda: reason in visitor.open("state").text)
        ours = next(one.value for one in visitor.cookies.jar if one.name == "nearfield_console")
    headers = {"cookie": f"nearfield_console={ours}"}
    stolen = httpx.get(f"{service.client.base_url}/console/overview", headers=headers, timeout=60)
    assert stolen.status_code == 303


# --- in a browser


@pytest.fixture
def page(service, tmp_path) -> Iterator[Browser]:
    program = browser.find()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(browser.NAMES)} is installed")
    with Browser(program, tmp_path) as page:
        yield page


def test_pages_work_in_a_browser(service, job, page):
    """At both widths and in both schemes."""
    url = f"{service.client.base_url}/console/"
    page.look(1280, "light")
    page.open(f"{url}login")
    page.ask(f"document.querySelector('[name=key]').value = '{ADMIN_KEY}'; document.forms[0].requestSubmit()")
    page.until("location.pathname.endsWith('/overview') && document.querySelector('#reads canvas') !== null")
    with traffic(service):
        shown = [f"document.querySelector('#{name} output').textContent" for name in ("reads", "freshness", "learned")]
        first = page.until(" && ".join(f"/[1-9]/.test({one})" for one in shown) + f" && {shown[0]}")
        page.until(f"/[1-9]/.test({shown[0]}) && {shown[0]} !== '{first}'")
        assert "MB" in page.ask("document.querySelector('#memory output').textContent")
        check_curves(page)
        for width, scheme in ((1280, "dark"), (1280, "light"), (400, "light"), (400, "dark")):
            page.look(width, scheme)
            for name in PAGES:
                page.open(url + name)
                assert page.ask("document.querySelector('h1').textContent") != ""
                assert page.ask("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than {width}"
                assert page.ask(SCROLLED) == [], f"a table of {name} is wider than {width}"
                dark = page.ask("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
                assert dark == (scheme == "dark")
    page.open(f"{url}models")
    page.ask(
        "let s = document.querySelector('[name=algorithm]'); s.value = 'esgd'; s.dispatchEvent(new Event('change'))"
    )
    page.until("document.querySelector('[name=\"param.learning_rate\"]') !== null")
    page.ask("document.querySelector('[name=\"param.n_epochs\"]').value = '2'; s.form.requestSubmit()")
    page.until("location.pathname.endsWith('/job') && document.querySelector('progress') !== null")
    page.until(
        "document.querySelector('.state').textContent === 'succeeded' && document.querySelector('progress').value"
    )
    check_parts(page, url)
    page.open(f"{url}item?id={quote(HOSTILE, safe='')}")
    assert page.ask("document.querySelector('h1 .id').textContent") == HOSTILE
    assert page.complaints == []
    assert page.origins == {str(service.client.base_url).rstrip("/")}, "a service without keys refuses forms of others"


def check_curves(page: Browser) -> None:
    """What the overview makes of two counts: rates, quantiles within buckets, and the memory of a GPU."""
    before = {"at_s": 10, "reads": [[0.001, 5], [0.002, 5], [None, 5]], "freshness": [], "learned": 7, "host_bytes": 0}
    now = {"at_s": 14, "reads": [[0.001, 55], [0.002, 105], [None, 105]], "freshness": [], "learned": 27}
    now |= {"host_bytes": 6e8, "device_bytes": {"arrays": 2e9, "taken": 3e9}}
    script = f"show({json.dumps(before)}, {json.dumps(now)}); "
    script += "Array.from(document.querySelectorAll('.curve output'), (one) => one.textContent)"
    expected = ["25", "1.98 ms", "p50 — · p99 —", "5", "host 600 MB · GPU 2,000 MB · GPU, all processes 3,000 MB"]
    assert page.ask(script) == expected
    page.ask("single = new Curves('reads', [''], rate, 3600); single.add(1000, 5)")
    page.until("single.plot.scales.x.min === 940 && single.plot.scales.x.max === 1000")


def check_parts(page: Browser, url: str) -> None:
    """Who moves by keys, selects text or has unfolded something does so undisturbed by the next answer for a part."""
    page.look(400, "light")
    page.open(f"{url}jobs")
    page.ask("swaps = 0; document.addEventListener('htmx:afterSwap', () => swaps++)")
    link = "document.querySelector('td a')"
    page.ask(f"first = {link}; first.focus()")
    page.until("swaps > 0")
    assert page.ask(f"document.activeElement === {link} && {link} !== first")
    page.ask(f"asked = 0; document.addEventListener('htmx:afterRequest', () => asked++); first = {link}")
    page.ask("getSelection().selectAllChildren(first)")
    page.until("asked > 1")
    assert page.ask("getSelection().toString() === first.textContent && first.isConnected")
    page.open(f"{url}overview")
    storage = "document.querySelector('#storage')"
    page.ask(f"first = {storage}; first.open = true; void htmx.ajax('GET', 'sizes', first.parentElement)")
    page.until(f"{storage} !== first && {storage}.open")


class traffic:  # noqa: N801 (a context manager)
    """Reads and ratings, until its end."""

    def __init__(self, service: Service) -> None:
        self._url, self._is_over = str(service.client.base_url), threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx.Client(base_url=self._url, headers={"X-API-Key": ADMIN_KEY}, timeout=60) as client:
            while not self._is_over.wait(0.02):
                assert client.get("/recommend/u1").status_code == 200
                client.post("/ratings", json={"user": "u2", "item": "i1", "rating": 3})


ODD = ("{}/", "{}/1", "{}/1/2/", "{}//", "{}%2F1", "{}/%2E%2E/x", "{}/..%2F", "/{}", "{}/login", "{}?id=%2F..%2F")


def crawled(visitor: Visitor) -> set[str]:
    """Follow every address of the console from page to page, and odd ones; each answers after few redirects."""
    visitor.max_redirects, visitor.follow_redirects = 3, True
    base = str(visitor.base_url)
    waiting = ["/console", "/console/", *(f"/console/{odd.format(one)}" for one in (*PAGES, "users") for odd in ODD)]
    waiting += ["/console/login", "/console/users/1", "/console/static/x/y", "/console/logout"]
    seen: set[str] = set()
    while waiting:
        address = waiting.pop()
        if address in seen or len(seen) > 600:
            continue
        seen.add(address)
        answer = visitor.get(address)  # raises TooManyRedirects
        assert answer.status_code < 500, (address, answer.text)
        for found in re.findall(r'(?:href|src|hx-get)="([^"#]+)"', answer.text):
            place = str(answer.url.join(html.unescape(found))).removeprefix(base)
            if place.startswith("/console"):
                assert answer.status_code != 404 or "/static/" not in place or visitor.get(place).status_code == 200
                waiting.append(place)
    visitor.follow_redirects = False
    return seen


def test_no_address_of_the_console_redirects_for_ever(admin, stranger):
    assert any("user?id=" in address for address in crawled(admin))
    assert len(crawled(stranger)) > 50
    for path, login in (("users/1", "../login"), ("a/b/c/", "../../../login"), ("users", "login")):
        with Visitor(str(stranger.base_url)) as nobody:
            assert nobody.open(path).headers["location"] == login
            partial = nobody.get(f"/console/{path}", headers={"hx-request": "true"})
            assert partial.headers["hx-redirect"] == login


def test_a_page_of_another_site_shows_no_page_of_the_console(admin):
    with Visitor(str(admin.base_url)) as visitor:
        assert visitor.sign_in().status_code == 303
        for site in ("cross-site", "same-site"):
            fetched = visitor.get("/console/overview", headers={"sec-fetch-site": site, "sec-fetch-mode": "no-cors"})
            assert fetched.status_code == 403
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        assert visitor.get("/console/overview", headers=headers).status_code == 200
        assert visitor.get("/console/overview", headers={"sec-fetch-site": "same-origin"}).status_code == 200
