"""No process that a service starts as a program of its own has a secret in its environment."""

from pathlib import Path

import pytest

from tests.service.process import Service
from tests.service.waiting import eventually

SECRETS = {
    "NEARFIELD_ADMIN_KEY": "secret-of-the-admins",
    "NEARFIELD_READ_KEY": "secret-of-the-readers",
    "AWS_SECRET_ACCESS_KEY": "secret-of-the-store",
    "MLFLOW_TRACKING_TOKEN": "secret-of-the-registry",
    "HTTPS_PROXY": "http://me:secret-of-the-proxy@192.0.2.1:3128",
}


def programs(service: Service) -> dict[str, bytes]:
    """The environment of each descendant of a service that is another program, by its command."""
    parents, found = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            parents[int(folder.name)] = int(status[1])
        except OSError:  # it has ended
            continue
    for pid in parents:
        ancestor = pid
        while ancestor in parents and ancestor != service.process.pid:
            ancestor = parents[ancestor]
        if ancestor == service.process.pid:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            if " serve " not in command:  # the service itself, and its forks
                found[command] = Path(f"/proc/{pid}/environ").read_bytes()
    return found


def test_trainer_and_redis_have_no_secret_in_their_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("secret-of-all-clients\n")
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NEARFIELD_API_KEY_FILE", str(tmp_path / "key"))
    service = Service(tmp_path / "data", backend="host")
    try:
        service.client.headers["X-API-Key"] = "secret-of-the-admins"
        service.rate(*((f"u{number % 40}", f"i{number % 30}", 1.0 + number % 5) for number in range(600)))
        body = {"algorithm": "sgd", "params": {"n_epochs": 10_000, "n_factors": 64}, "force": True}
        job = service.client.post("/admin/retrain", json=body).json()["id"]
        seen = dict[str, bytes]()

        def has_trainer() -> bool:
            seen.update(programs(service))
            return any("service.jobs.trainer" in command for command in seen)

        eventually(has_trainer)
        service.client.delete(f"/admin/jobs/{job}")
        assert any("redis" in command or "valkey" in command for command in seen)
        for command, environment in seen.items():
            assert b"PATH=" in environment or "valkey" in command, "valkey overwrites its own"
            for secret in (*SECRETS.values(), str(tmp_path / "key"), "secret-of"):
                assert secret.encode() not in environment, command
        service.client.headers["X-API-Key"] = "secret-of-all-clients"
        assert service.get("/recommend/u1").status_code == 200
        assert service.get("/admin/jobs").status_code == 403
    finally:
        service.kill()
