"""The client against a real service: requests, refusals, waits and trainings."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from service.__main__ import run
from service.cli.client import Client, JobFailed, RatingBody, RequestFailed
from service.cli.service_process import ServiceProcess
from service.settings.errors import InvalidSetting
from tests.service.planted import SMALL, events
from tests.service.process import Service
from tests.service.waiting import eventually

KEYS = {"api_key": "key-of-every-client", "admin_key": "key-of-the-admins"}
NOBODY = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a service with keys."""
    service = Service(tmp_path_factory.mktemp("client") / "data", backend="host", log_level="error", **KEYS)
    yield str(service.client.base_url)
    service.kill()


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Client]:
    """With the key of the admins; the service knows the planted ratings."""
    with Client(address, KEYS["admin_key"]) as client:
        answer = client.rate([{"user": one.user, "item": one.item, "rating": one.rating or 0.0} for one in events(30)])
        client.wait_for(answer["stream_id"])
        yield client


def test_a_bought_item_is_gone_from_the_list_after_the_wait(client: Client) -> None:
    answer = client.send_events({"user": "buyer", "item": "i1", "type": "purchase"})
    client.wait_for(answer["stream_id"])
    listed = client.recommend("buyer", n=50, model=None)["items"]
    assert listed
    assert "i1" not in {one["item"] for one in listed}


def test_a_rated_item_is_gone_from_the_list_after_the_wait(client: Client) -> None:
    seen = client.rate({"user": "reader", "item": "i1", "rating": 5.0})["stream_id"]
    client.wait_for(seen)
    answer = client.recommend("reader", n=3, wait_for=seen, model=None)
    assert (answer["user"], len(answer["items"])) == ("reader", 3)
    assert "i1" not in [line["item"] for line in answer["items"]]


def test_a_bad_rating_is_refused_alone_and_listed_in_a_batch(client: Client) -> None:
    bad: RatingBody = {"user": "reader", "item": "", "rating": 5.0}
    with pytest.raises(RequestFailed) as refused:
        client.rate(bad)
    assert (refused.value.code, refused.value.document["status"], refused.value.retry_after_s) == (422, 422, None)
    assert str(refused.value) == f"POST /ratings: {refused.value.problem}"
    assert refused.value.problem.startswith("422 Invalid request: ")
    answer = client.rate([{"user": "reader", "item": "i2", "rating": 4.0}, bad])
    assert (answer["accepted"], [line["index"] for line in answer["rejected"]]) == (1, [1])


@pytest.mark.parametrize("name", ["a/b", "..", "%2F", "x?y=1&z", "名前"])
def test_any_id_can_be_named(client: Client, name: str) -> None:
    seen = client.rate([{"user": name, "item": "i1", "rating": 3.0}, {"user": "u0", "item": name, "rating": 3.0}])
    client.wait_for(seen["stream_id"])
    assert client.recommend(name)["user"] == name


def test_a_training_is_followed_to_its_end_and_its_model_answers(client: Client) -> None:
    states: list[str] = []
    job = client.retrain("culsh", SMALL, force=True, on_poll=lambda job: states.append(job["state"]))
    assert (job["state"], job["promoted"], client.job(job["id"])["version"]) == ("succeeded", True, job["version"])
    assert states[-1] == "succeeded"
    assert set(states) > {"succeeded"}
    answer = client.recommend("u0", model="culsh")
    assert (answer["personalized"], answer["model_version"]) == (True, job["version"])
    neighbors = client.neighbors("i0", n=3, model="culsh")["neighbors"]
    assert len(neighbors) == 3
    assert 1.0 <= client.estimate("u0", "i0", model="culsh")["estimate"] <= 5.0
    with pytest.raises(RequestFailed, match="GET /items/nothing/neighbors: 404 Unknown item: "):
        client.neighbors("nothing")


def test_a_training_that_ends_without_a_model_is_an_error(client: Client) -> None:
    def cancel() -> None:
        """Cancel the job that runs."""
        job = eventually(lambda: next((j for j in client.get("/admin/jobs")["jobs"] if j["state"] == "running"), None))
        client.http.delete(f"/admin/jobs/{job['id']}").raise_for_status()

    other = threading.Thread(target=cancel)
    other.start()
    with pytest.raises(JobFailed, match="\\(train\\) cancelled: "):
        client.retrain("sgd", {"n_epochs": 10_000})
    other.join()


def test_a_key_is_sent(address: str) -> None:
    with Client(address) as nobody, Client(address, KEYS["api_key"]) as reader:
        nobody.check_live()
        nobody.check_ready()
        with pytest.raises(RequestFailed) as refused:
            nobody.recommend("u0")
        assert refused.value.code == 401
        assert reader.recommend("u0")["user"] == "u0"
        with pytest.raises(RequestFailed, match="POST /admin/retrain: 403 "):
            reader.retrain("sgd")


def test_a_missing_service_and_a_bad_url_are_errors() -> None:
    with Client(NOBODY.replace("//", "//me:hidden@")) as client, pytest.raises(RequestFailed) as missing:
        client.wait_until_ready(0.1)
    assert (missing.value.code, missing.value.document) == (None, {})
    assert str(missing.value).startswith(f"no service answers at {NOBODY}: ")
    assert missing.value.problem.startswith("ConnectError: ")
    with pytest.raises(InvalidSetting, match="Invalid url: expected http://HOST:PORT"):
        Client("http://127.0.0.1:port")


def test_an_answer_that_is_no_json_object_is_an_error() -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<title>Another server</title>")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        with (
            Client(f"http://127.0.0.1:{server.server_port}") as client,
            pytest.raises(RequestFailed, match="GET /health/live: 200 <title>Another server</title>"),
        ):
            client.check_live()
        server.shutdown()
        serving.join()


def test_a_start_is_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with ServiceProcess(tmp_path / "data", port) as process, Client(f"http://127.0.0.1:{port}") as client:
        client.wait_until_ready(60)
        assert process.address() == client.address
        client.check_ready()


def test_a_client_of_a_data_set_asks_below_its_name() -> None:
    with Client("http://127.0.0.1:1/below/", data_set="shop") as client:
        assert client.http.base_url.path == "/below/d/shop/"
    with Client("http://127.0.0.1:1") as client:
        assert client.http.base_url.path == "/"
    with pytest.raises(InvalidSetting, match="'No Name'"):
        Client("http://127.0.0.1:1", data_set="No Name")


def test_an_import_is_taken_back_by_its_file(
    address: str, client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, key in KEYS.items():
        monkeypatch.setenv(f"NEARFIELD_{name.upper()}", key)
    path = tmp_path / "wrong.csv"
    path.write_text("user,item,rating\nkim,a,5\nkim,b,4\nlee,a,3\n")

    def said(*options: str) -> str:
        assert run(["import", str(path), "--url", address, *options]) == 0
        return capsys.readouterr().out.strip()

    def rated() -> list[tuple[str, float]]:
        users = [client.get(f"/users/{user}/ratings")["ratings"] for user in ("kim", "lee")]
        return [(one["item"], one["rating"]) for ratings in users for one in ratings]

    client.rate({"user": "kim", "item": "a", "rating": 2.0})
    assert said() == "3 ratings accepted, 0 rejected"
    assert said() == "3 ratings accepted, 0 rejected, 3 of an earlier import of the file skipped"
    client.wait_for(client.rate({"user": "lee", "item": "a", "rating": 1.0})["stream_id"])
    rest = "(1 to what they were before), 1 stay, because they were changed since"
    assert said("--undo", "--dry-run") == f"2 ratings would be taken back {rest}"
    assert rated() == [("b", 4.0), ("a", 5.0), ("a", 1.0)]
    assert said("--undo") == f"2 ratings taken back {rest}"
    eventually(lambda: rated() == [("a", 2.0), ("a", 1.0)])
    assert said() == "3 ratings accepted, 0 rejected", "it may come again"
    path.write_text("user,item,rating\nkim,c,5\n")
    assert run(["import", str(path), "--url", address, "--undo"]) == 1
    assert "expected the file and the options of the import" in capsys.readouterr().err
    assert run(["import", str(path), "--items", "--undo"]) == 2
