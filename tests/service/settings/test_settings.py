from typing import Any

import pytest
from pydantic import ValidationError

from service.cli.complaints import message
from service.settings.addresses import is_loopback
from service.settings.errors import InvalidSetting
from service.settings.settings import Settings

KEY, OTHER_KEY = "key-of-every-client", "key-of-the-admins"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"NEARFIELD_{name.upper()}", raising=False)


def test_every_setting_is_documented() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_environment_and_keywords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARFIELD_RATING_SCALE", "0.5,5")
    monkeypatch.setenv("NEARFIELD_DEFAULT_MODELS", "culsh, sgd")
    monkeypatch.setenv("NEARFIELD_PORT", "9000")
    monkeypatch.setenv("NEARFIELD_TRUSTED_PROXIES", "10.0.0.0/8, fd00::/8,127.0.0.1")
    settings = Settings(port=9001)
    assert settings.trusted_proxies == ["10.0.0.0/8", "fd00::/8", "127.0.0.1"]
    assert settings.rating_scale == (0.5, 5.0)
    assert settings.default_models == ["culsh", "sgd"]
    assert settings.port == 9001


def test_keys_are_not_shown() -> None:
    settings = Settings(api_key=f"{KEY},{KEY}-new", admin_key=OTHER_KEY)
    assert KEY not in repr(settings)
    assert OTHER_KEY not in f"{settings!r} {settings} {settings.model_dump()}"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_keys(host: str) -> None:
    assert is_loopback(host)
    assert Settings(host=host).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_other_hosts_need_keys_to_serve(host: str) -> None:
    short: list[dict[str, Any]] = [{}, {"api_key": KEY}, {"admin_key": KEY}, {"read_key": KEY}]
    for keys in short:
        settings = Settings(host=host, **keys)  # a process that does not serve needs none
        with pytest.raises(InvalidSetting, match="NEARFIELD_ADMIN_KEY"):
            settings.check_exposure()
    for name in ("api_key", "read_key", "write_key"):
        enough: dict[str, Any] = {"admin_key": OTHER_KEY, name: KEY}
        Settings(host=host, **enough).check_exposure()


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"api_key": "short"}, "Invalid api_key: expected a key of 16 characters or more"),
        ({"read_key": f"{KEY},short"}, "Invalid read_key"),
        ({"write_key": f"{KEY},"}, "Invalid write_key"),
        ({"admin_key": f"{KEY},{KEY}2,{KEY}3"}, "or two such keys"),
        (
            {"api_key": f"{KEY},{KEY}"},
            "Invalid api_key: .* differs from all others, got one of api_key",
        ),
        ({"api_key": KEY, "read_key": KEY}, "Invalid read_key: .* got one of api_key"),
        ({"admin_key": f"{OTHER_KEY}, {KEY}", "write_key": KEY}, "Invalid write_key: .* got one of admin_key"),
    ],
)
def test_keys_are_long_and_differ(keys: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint) as caught:
        Settings(**keys)
    assert KEY not in message(caught.value)


def test_the_key_to_write_with() -> None:
    assert Settings().own_key("write_key") is None
    assert Settings(api_key=f"{KEY},{OTHER_KEY}").own_key("write_key") == KEY
    assert Settings(api_key=KEY, write_key=OTHER_KEY).own_key("write_key") == OTHER_KEY


def test_an_address_that_kubernetes_injects_is_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARFIELD_PORT", "tcp://10.0.171.239:8000")
    assert Settings().port == Settings.model_fields["port"].default


@pytest.mark.parametrize(
    "wrong",
    [
        {"rating_scale": "5,1"},
        {"rating_scale": "1"},
        {"rating_scale": "1,nan"},
        {"rating_scale": "0,2e6"},
        {"data": ""},
        {"redis": ""},
        {"redis": "localhost:6379"},
        {"redis": "http://localhost:6379"},
        {"redis": "redis://localhost:port"},
        {"redis": "redis://"},
        {"redis": "unix://"},
        {"default_models": "Home"},
        {"default_models": "shadows"},
        {"default_models": "als,"},
        {"api_key": ""},
        {"port": 70000},
        {"retrain_every_hours": -1},
        {"retrain_every_hours": float("inf")},
        {"backend": "gpu"},
        {"trusted_proxies": "nginx"},
        {"trusted_proxies": "10.0.0.1/8"},
        {"trusted_proxies": "10.0.0.0/8,"},
        {"cors_origins": "shop.example"},
        {"cors_origins": "https://shop.example/"},
        {"cors_origins": "https://shop.example:443"},
        {"cors_origins": "https://*.shop.example"},
        {"cors_origins": "*,https://shop.example"},
        {"cors_origins": "null"},
        {"unknown": 1},
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings(**wrong)


@pytest.mark.parametrize(
    "url", ["redis://:secret@host:6379/0", "rediss://host", "redis://[::1]:6379", "unix:///run/redis.sock"]
)
def test_redis_urls(url: str) -> None:
    assert Settings(redis=url).redis == url


@pytest.mark.parametrize("password", ["1/2", "1?2", "1#2", "a#b", "a/b"])
def test_a_password_that_cuts_a_url_is_refused(password: str) -> None:
    with pytest.raises(ValidationError, match="password percent-encoded"):
        Settings(redis=f"redis://app:{password}@host:6379")
