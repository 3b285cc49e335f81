from __future__ import annotations

import pytest
from pydantic import ValidationError

from service.settings import Settings, is_loopback


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
    assert "secret" not in repr(Settings(api_key="secret", admin_key="secret2"))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_keys(host: str) -> None:
    assert is_loopback(host)
    assert Settings(host=host).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_other_hosts_need_both_keys(host: str) -> None:
    with pytest.raises(ValidationError, match="NEARFIELD_ADMIN_KEY"):
        Settings(host=host, api_key="a")
    assert Settings(host=host, api_key="a", admin_key="b").host == host


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
        {"default_models": "nope"},
        {"api_key": ""},
        {"port": 70000},
        {"retrain_every_hours": -1},
        {"retrain_every_hours": float("inf")},
        {"backend": "gpu"},
        {"trusted_proxies": "nginx"},
        {"trusted_proxies": "10.0.0.1/8"},
        {"trusted_proxies": "10.0.0.0/8,"},
        {"unknown": 1},
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Settings(**wrong)


@pytest.mark.parametrize(
    "url", ["redis://:secret@host:6379/0", "rediss://host", "redis://[::1]:6379", "unix:///run/redis.sock"]
)
def test_redis_urls(url: str) -> None:
    assert Settings(redis=url).redis == url
