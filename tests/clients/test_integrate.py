"""docs/integrate.md as its reader runs it: both applications, from a visitor to an account that is closed."""

# ruff: noqa: PLC0415 (Django may be missing)

import asyncio
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import httpx
import pytest

from tests.code_blocks import blocks
from tests.service.process import Service

KEYS = {"api_key": "key-of-every-client", "admin_key": "key-of-the-admins"}
ITEMS = [f"item-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """With items that two others have viewed, so that lists of popular ones are not empty."""
    data = tmp_path_factory.mktemp("integrate") / "data"
    service = Service(data, backend="host", log_level="error", worker=False, **KEYS)
    events = [{"user": f"other-{n}", "item": item, "type": "view"} for n in range(2) for item in ITEMS]
    service.client.headers["X-API-Key"] = KEYS["admin_key"]
    service.api.send_events(events)
    yield service
    service.stop()


def application(service: Service, framework: str) -> ModuleType:
    """The block of the page as a module, with the address and the keys of the service."""
    (block,) = [one for one in blocks() if one.page == "docs/integrate.md" and framework in one.body]
    code = block.body.replace("http://localhost:8000", str(service.client.base_url).rstrip("/"))
    code = code.replace("the API key", KEYS["api_key"]).replace("the admin key", KEYS["admin_key"])
    module = ModuleType(f"{framework}_of_the_page")
    sys.modules[module.__name__] = module
    exec(compile(code, str(block), "exec"), module.__dict__)
    return module


def events_of(service: Service, user: str, site: ModuleType) -> dict[str, float]:
    """The strength of each item of a user after all that the site has written; empty for one who is unknown."""
    answer = service.get(f"/users/{user}/events", wait_for=site.nearfield.position.latest)
    if answer.status_code == 404:
        return {}
    return {one["item"]: one["strength"] for one in answer.raise_for_status().json()["events"]}


def test_a_newsroom_on_fastapi(service: Service) -> None:
    site = application(service, "fastapi")

    async def use() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(site.app), base_url="http://news") as browser:
            assert (await browser.post("/articles/item-3/opened")).is_success
            visitor = browser.cookies["visitor"]
            shown = (await browser.get("/for-you")).json()
            assert len(shown) == 5
            assert "item-3" not in shown
            assert not set((await browser.get("/for-you")).json()) & set(shown)  # what was shown makes room

            await site.signed_in(7, visitor)
            assert events_of(service, "account-7", site)["item-3"] == 1.0
            assert events_of(service, f"visitor-{visitor}", site) == {}
            await site.signed_in(7, "who-did-nothing")

            await site.closed(7)
            assert events_of(service, "account-7", site) == {}
            await site.closed(8)  # an account that did nothing
        for client in (site.nearfield, site.admin):
            await client.get_async_httpx_client().aclose()

    asyncio.run(use())


def test_a_shop_on_django(service: Service) -> None:
    pytest.importorskip("django", reason="Django is not installed: run `make install`")
    import django
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client
    from django.urls import path

    if not settings.configured:
        middleware = ("sessions.middleware.SessionMiddleware", "auth.middleware.AuthenticationMiddleware")
        settings.configure(
            SECRET_KEY="of a test", ALLOWED_HOSTS=["*"], ROOT_URLCONF="urls_of_the_shop",
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
            INSTALLED_APPS=[f"django.contrib.{name}" for name in ("auth", "contenttypes", "sessions")],
            MIDDLEWARE=[f"django.contrib.{name}" for name in middleware], LOGIN_REDIRECT_URL="/",
            LOGGING_CONFIG=None,
        )  # fmt: skip
        django.setup()
        call_command("migrate", verbosity=0)
    from django.contrib.auth.models import User
    from django.contrib.auth.views import LoginView

    site = application(service, "django")
    urls: Any = ModuleType("urls_of_the_shop")
    urls.urlpatterns = [
        path("products/<product>/bought", site.bought),
        path("for-you", site.for_you),
        path("login", LoginView.as_view()),
    ]
    sys.modules[urls.__name__] = urls
    User.objects.create_user("ann", password="a secret of hers").save()
    account = f"account-{User.objects.get(username='ann').pk}"
    browser = Client()

    assert browser.post("/products/item-3/bought").status_code == 204
    shown = browser.get("/for-you").json()["items"]
    assert len(shown) == 5
    assert "item-3" not in shown
    visitor = f"visitor-{browser.session['visitor']}"
    assert events_of(service, visitor, site)["item-3"] == 10.0

    assert browser.post("/login", {"username": "ann", "password": "a secret of hers"}).status_code == 302
    assert not set(browser.get("/for-you").json()["items"]) & {*shown, "item-3"}
    assert events_of(service, account, site)["item-3"] == 10.0
    assert events_of(service, visitor, site) == {}

    User.objects.get(username="ann").delete()
    assert events_of(service, account, site) == {}
