"""Secrets in files, and processes that inherit none."""

from pathlib import Path

import pytest

from service.settings.environment import without_secrets
from service.settings.errors import InvalidSetting
from service.settings.secret_files import MAX_BYTES, SETTINGS, secret, variable_of_others
from service.settings.settings import Settings, unknown_variables

KEY = "key-of-the-admins-in-a-file"
REDIS = "redis://:password@localhost:6379/0"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        for suffix in ("", "_FILE"):
            monkeypatch.delenv(f"NEARFIELD_{name.upper()}{suffix}", raising=False)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_each_secret_can_be_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, end: str) -> None:
    value = REDIS if name == "redis" else f"{KEY}-{name}"
    path = tmp_path / "secret"
    path.write_bytes((value + end).encode())
    monkeypatch.setenv(f"NEARFIELD_{name.upper()}_FILE", str(path))
    settings = Settings()
    assert (settings.redis if name == "redis" else settings.keys(name)) in (REDIS, [value])
    assert unknown_variables() == []
    assert settings.of("films").root == settings.data
    assert value not in repr(settings) or name == "redis"


def test_two_keys_in_a_file_and_an_option_that_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}-new, {KEY}-old\n")
    (tmp_path / "redis").write_text(REDIS)
    monkeypatch.setenv("NEARFIELD_ADMIN_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("NEARFIELD_REDIS_FILE", str(tmp_path / "redis"))
    settings = Settings(redis="redis://elsewhere")
    assert settings.keys("admin_key") == [f"{KEY}-new", f"{KEY}-old"]
    assert settings.redis == "redis://elsewhere"


@pytest.mark.parametrize("name", SETTINGS)
def test_a_value_and_a_file_are_refused_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    (tmp_path / "key").write_text(KEY)
    monkeypatch.setenv(f"NEARFIELD_{name.upper()}", KEY)
    monkeypatch.setenv(f"nearfield_{name}_file", str(tmp_path / "key"))
    with pytest.raises(InvalidSetting, match=f"expected either NEARFIELD_{name.upper()} or .*_FILE, got both"):
        Settings()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "there is no such file"),
        (b"", "it is empty"),
        (b"\n\r\n", "it is empty"),
        (b"\xff" * 32, "it is not UTF-8"),
        (b"k" * (MAX_BYTES + 1), "it has more than 65,536 bytes"),
        ("folder", "it is not a regular file"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_without_its_content(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | str | None, reason: str
) -> None:
    path = tmp_path / "secret"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content == "folder":
        path.mkdir()
    monkeypatch.setenv("NEARFIELD_ADMIN_KEY_FILE", str(path))
    with pytest.raises(InvalidSetting) as raised:
        Settings()
    assert str(raised.value) == f"Invalid NEARFIELD_ADMIN_KEY_FILE: expected a file with a secret, got {path}: {reason}"


def test_a_short_key_in_a_file_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("too-short\n")
    monkeypatch.setenv("NEARFIELD_ADMIN_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(ValueError, match="16 characters or more"):
        Settings()


def test_variables_of_others_can_be_in_files_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-a-registry\n")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("OF_THE_BRIDGE_FILE", str(tmp_path / "token"))
    assert variable_of_others("MLFLOW_TRACKING_TOKEN") == "of-a-registry"
    assert secret("OF_THE_BRIDGE") == "of-a-registry"
    assert variable_of_others("MLFLOW_TRACKING_PASSWORD") is None


def test_a_child_inherits_no_secret_and_all_else() -> None:
    secrets = {
        "NEARFIELD_API_KEY", "NEARFIELD_ADMIN_KEY", "NEARFIELD_READ_KEY", "NEARFIELD_WRITE_KEY", "NEARFIELD_REDIS",
        "NEARFIELD_ADMIN_KEY_FILE", "NEARFIELD_REDIS_FILE", "NEARFIELD_CLUSTER_TLS_KEY", "REDIS_PASSWORD",
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS",
        "AZURE_STORAGE_ACCOUNT_KEY", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "OTEL_EXPORTER_OTLP_HEADERS",
    }  # fmt: skip
    others = {
        "PATH", "HOME", "LANG", "PYTHONPATH", "NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "CUDA_VISIBLE_DEVICES",
        "NCCL_P2P_DISABLE", "OPENBLAS_NUM_THREADS", "LD_LIBRARY_PATH", "NEARFIELD_FAULT_AT", "OMP_NUM_THREADS",
        "CUPY_CACHE_DIR", "TMPDIR", "OTEL_EXPORTER_OTLP_ENDPOINT", "MALLOC_ARENA_MAX", "SSL_CERT_FILE",
    }  # fmt: skip
    assert set(without_secrets(dict.fromkeys(secrets | others, "value"))) == others
    urls = {"HTTPS_PROXY": "http://me:secret@proxy:3128", "OTHER_PROXY": "http://proxy:3128/a@b:c", "DATABASE": REDIS}
    assert set(without_secrets(urls)) == {"OTHER_PROXY"}
