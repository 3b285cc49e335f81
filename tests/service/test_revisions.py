"""A model keeps its version for clients when a user is forgotten; what changes is its revision."""

from functools import partial
from pathlib import Path

from tests.service.local import Local, serving
from tests.service.waiting import eventually


def live_model(service: Local) -> dict[str, object]:
    (found,) = [model for model in service.get("/admin/models").json()["models"] if model["live"]]
    return found


def is_live(service: Local, revision: int) -> bool:
    return live_model(service)["revision"] == revision


def test_the_version_stays_when_users_are_forgotten(tmp_path: Path) -> None:
    with serving(tmp_path / "data", backend="host") as service:
        service.rate(*((f"u{user}", f"i{item}", float(user * item % 5)) for user in range(8) for item in range(6)))
        job = service.retrain("als", params={"n_factors": 4, "n_epochs": 2})
        version = job["version"]
        for revision, user in enumerate(("u1", "u2"), start=1):
            forgetting = service.request("DELETE", f"/admin/users/{user}").json()["job"]
            assert service.ended_job(forgetting)["state"] == "succeeded"
            eventually(partial(is_live, service, revision))
            assert live_model(service)["version"] == version
            answer = service.get("/recommend/u5", model="als").json()
            assert (answer["personalized"], answer["model_version"]) == (True, version)
            assert service.get("/estimate/u5/i1").json()["model_version"] == version
            assert service.get("/items/i1/neighbors").json()["model_version"] == version
            assert service.ended_job(job["id"])["version"] == version
        activated = service.request("POST", f"/admin/models/{version}/activate")
        assert (activated.status_code, activated.json()["version"], activated.json()["revision"]) == (202, version, 2)
        assert f'nearfield_model_info{{algorithm="als",version="{version}"}} 1.0' in service.get("/metrics").text
