"""`nearfield push` and `nearfield pull`: folders, a server that speaks S3, and plain HTTP."""

import errno
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gpu
from service.__main__ import run
from service.extras.stores import object_store
from service.storage import files
from service.storage.events import Entry, StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.log.segment import table_of
from service.storage.snapshots import live_versions, snapshot
from tests.service.extras.registry.mlflow_server import MLflowServer
from tests.service.object_server import ObjectServer
from tests.service.planted import entries

pytest.importorskip("obstore", reason="needs the extra registry: pip install obstore")

VERSION = "als-20260131T120000-1a2b"
FILES = {"arrays.safetensors", "users.parquet", "items.parquet", "manifest.json", "manifest.sha256"}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out")
    ratings = gpu.Ratings.from_coo(np.array([0, 1]), np.array([0, 2]), np.array([5.0, 1.0], np.float32), (2, 3))
    fitted = gpu.fit(ratings, gpu.params_for("als", {"n_factors": 4, "n_epochs": 1}))
    ids = ["u0", "u1"], ["i0", "i1", "i2"]
    snapshot.write(folder, fitted, *ids, metrics={}, watermark="0-0", version=VERSION)
    return folder


@pytest.fixture
def model(out: Path, tmp_path: Path) -> Path:
    """A copy that a test may alter."""
    return Path(shutil.copytree(out / VERSION, tmp_path / "out" / VERSION))


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch):
    with MLflowServer() as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
        yield server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(object_store.RETRIES, "max_retries", 1)
    with ObjectServer() as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        yield server


def held(data: Path) -> set[str]:
    """The entries of the folder of snapshots but the lock."""
    return {path.name for path in (data / "snapshots").iterdir()} - {".lock"}


def altered(model: Path, **fields: object) -> Path:
    """The model with other fields in its manifest, and the right checksum of it."""
    content = json.dumps(json.loads((model / "manifest.json").read_bytes()) | fields).encode()
    (model / "manifest.json").write_bytes(content)
    (model / "manifest.sha256").write_text(hashlib.sha256(content).hexdigest() + "\n")
    return model


def test_a_model_travels_by_a_folder_and_goes_live(model: Path, tmp_path: Path, capsys) -> None:
    data, url = tmp_path / "data", f"file://{tmp_path}/a store/models"
    log, made = RatingLog(data / "ratings"), entries()
    made = [*made, Entry(StreamId(made[-1].id.ms + 1, 0), "forget", subject="u1")]
    log.files.write(made[0].id, made[-1].id, [table_of(made)])
    assert run(["push", str(model.parent), url]) == 0
    assert capsys.readouterr().out.startswith(f"pushed {url}/{VERSION}")
    assert run(["push", str(model), url]) == 0
    assert capsys.readouterr().out.startswith(f"unchanged {url}/{VERSION}")
    assert run(["pull", f"{url}/{VERSION}", "--data", str(data)]) == 0
    assert run(["pull", f"{url}/{VERSION}", "--data", str(data)]) == 0
    first, second = (shlex.split(line.split("next nearfield ")[1]) for line in capsys.readouterr().out.splitlines())
    assert first == second == ["deploy", f"{data}/snapshots/{VERSION}.1", "--data", str(data)]
    assert held(data) == {f"{VERSION}.1"}
    assert list(snapshot.load(data / "snapshots", f"{VERSION}.1").user_ids) == ["u0"]  # u1 was forgotten here
    assert run(first) == 0
    assert live_versions.read(data) == {"als": f"{VERSION}.1"}


def test_s3_takes_long_files_in_parts(server: ObjectServer, model: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(object_store, "PART_BYTES", 100)
    server.failures = 1
    assert run(["push", str(model), "s3://bucket/models"]) == 0
    assert server.objects == {f"/bucket/models/{VERSION}/{name}": (model / name).read_bytes() for name in FILES}
    written = [path.rsplit("/", 1)[1] for method, path in server.requests if method != "GET"]
    assert written[-1] == "manifest.json"
    assert written.count("arrays.safetensors") > 4
    server.failures = 1
    data = tmp_path / "data"
    for source in (f"s3://bucket/models/{VERSION}/", f"{server.url}/bucket/models/{VERSION}"):
        assert run(["pull", source, "--data", str(data)]) == 0
        assert snapshot.verify(data / "snapshots", VERSION)
        assert held(data) == {VERSION}
        shutil.rmtree(data)


@pytest.mark.parametrize("change", ["flipped", "truncated", "missing"])
def test_what_is_not_as_it_was_pushed_is_refused(server: ObjectServer, model: Path, tmp_path: Path, change, capsys):
    run(["push", str(model), "s3://bucket/models"])
    pushed = dict(server.objects)
    for name in sorted(FILES):
        path = f"/bucket/models/{VERSION}/{name}"
        content = server.objects.pop(path)
        if change != "missing":
            server.objects[path] = content[:-2] if change == "truncated" else bytes([content[0] ^ 1]) + content[1:]
        code = run(["pull", f"s3://bucket/models/{VERSION}", "--data", str(tmp_path / "data")])
        assert code == (2 if (name, change) == ("manifest.json", "missing") else 1)
        assert name in capsys.readouterr().err
        assert held(tmp_path / "data") == set()
        server.objects.update(pushed)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"format": 99}, "upgrade"),
        ({"algorithm": "oracle"}, "got 'oracle': upgrade"),
        ({"version": "als-20260131T120000-ffff"}, "one of 'als-20260131T120000-ffff'"),
        ({"files": {"../../live.json": "0" * 64}}, "called '../../live.json'"),
        ({"files": {"arrays.safetensors": "0" * 64}}, "got none called 'items.parquet'"),
    ],
)
def test_foreign_manifests_are_refused(server: ObjectServer, model, tmp_path: Path, fields, reason, capsys) -> None:
    for name in FILES:
        server.objects[f"/bucket/models/{VERSION}/{name}"] = (altered(model, **fields) / name).read_bytes()
    assert run(["pull", f"s3://bucket/models/{VERSION}", "--data", str(tmp_path / "data")]) in (1, 2)
    assert reason in capsys.readouterr().err
    assert held(tmp_path / "data") == set()
    assert [path for _, path in server.requests if "parquet" in path] == []


def test_another_snapshot_of_the_version_is_refused(server: ObjectServer, model: Path, tmp_path: Path, capsys) -> None:
    data = ["--data", str(tmp_path / "data")]
    run(["push", str(model), "s3://bucket/models"])
    before = dict(server.objects)
    assert run(["push", str(altered(model, n_ratings=7)), "s3://bucket/models"]) == 1
    assert f"s3://bucket/models/{VERSION} is another snapshot" in capsys.readouterr().err
    assert server.objects == before
    run(["pull", f"s3://bucket/models/{VERSION}", *data])
    run(["push", str(model), "s3://bucket/other"])
    assert run(["pull", f"s3://bucket/other/{VERSION}", *data]) == 1
    assert "is another snapshot" in capsys.readouterr().err
    assert json.loads((tmp_path / "data" / "snapshots" / VERSION / "manifest.json").read_bytes())["n_ratings"] is None


def test_a_damaged_model_and_none_are_not_pushed(server: ObjectServer, model: Path, tmp_path: Path, capsys) -> None:
    assert run(["push", str(tmp_path / "nothing"), "s3://bucket/models"]) == 2
    (model / "users.parquet").write_bytes(b"x")
    assert run(["push", str(model), "s3://bucket/models"]) == 1
    assert "users.parquet has SHA-256" in capsys.readouterr().err
    assert server.objects == {}


@pytest.mark.parametrize(
    ("url", "code", "reason"),
    [
        ("ftp://host/models", 2, "expected s3://, gs://, az://, file://, http://, https:// or models:/, got ftp"),
        ("models", 2, "got no scheme"),
        ("s3://", 2, "expected s3://BUCKET/PREFIX"),
        ("file://relative", 2, "expected file:///PATH"),
        ("https://me:secret@host/models", 2, "expected no user, password"),
        ("az://box/models", 2, "AZURE_STORAGE_ACCOUNT_NAME"),
        ("s3://nowhere/models", 2, "there is no snapshot at s3://nowhere/models"),
        ("http://127.0.0.1:1/models", 1, "cannot read it"),
    ],
)
def test_addresses_that_cannot_be_used(server: ObjectServer, model: Path, tmp_path: Path, url, code, reason, capsys):
    assert run(["pull", f"{url}/{VERSION}", "--data", str(tmp_path / "data")]) == code
    told = capsys.readouterr().err
    assert reason in told
    assert "secret" not in told
    assert run(["pull", f"{server.url}/bucket/models", "--data", str(tmp_path / "data")]) == 2
    assert "expected a URL that ends with a version" in capsys.readouterr().err


def test_stores_that_refuse(server: ObjectServer, model: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    assert run(["push", str(model), f"{server.url}/bucket"]) == 2
    assert "expected s3://, gs://, az:// or file:// to write" in capsys.readouterr().err
    assert run(["push", str(model), "s3://nowhere/models"]) == 2
    assert "expected a bucket or container that exists" in capsys.readouterr().err
    server.is_open = False
    assert run(["push", str(model), "s3://bucket/models"]) == 1
    assert "does not permit to read" in (told := capsys.readouterr().err)
    assert "AWS_ACCESS_KEY_ID" in told
    server.is_open, server.failures = True, 9
    assert run(["push", str(model), "s3://bucket/models"]) == 1
    assert "cannot read it (credentials come from the environment, such as AWS_ACCESS" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "obstore", None)
    assert run(["push", str(model), "s3://bucket/models"]) == 2
    assert "pip install '.[registry]' in a checkout" in capsys.readouterr().err


def test_a_full_disk_leaves_nothing(server: ObjectServer, model: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    run(["push", str(model), "s3://bucket/models"])

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "fsync", full)
    assert run(["pull", f"s3://bucket/models/{VERSION}", "--data", str(tmp_path / "data")]) == 1
    assert "arrays.safetensors: No space left on device" in capsys.readouterr().err
    assert held(tmp_path / "data") == set()


def started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "service", *arguments]
    return subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_killed_processes_leave_nothing_that_counts(server: ObjectServer, model: Path, tmp_path: Path, capsys) -> None:
    data, url = tmp_path / "data", "s3://bucket/models"
    for command, halt in ((["push", str(model), url], "users"), (["pull", f"{url}/{VERSION}"], "items")):
        server.halted.clear()
        server.halt = f"/bucket/models/{VERSION}/{halt}.parquet"
        options = ["--data", str(data)] if command[0] == "pull" else []
        with started(*command, *options) as process:
            assert server.halted.wait(60)
            process.send_signal(signal.SIGKILL)
        server.halt = None
        if command[0] == "push":
            assert any(path.endswith("arrays.safetensors") for path in server.objects)
            assert run(["pull", f"{url}/{VERSION}", "--data", str(data)]) == 2
            assert f"there is no snapshot at {url}/{VERSION}" in capsys.readouterr().err
            assert run(command) == 0
        else:
            assert all(name.startswith(".") for name in held(data))
            assert snapshot.versions(data / "snapshots") == []
            with started(*command, *options) as process:
                told, complaint = process.communicate(timeout=60)
            assert (process.returncode, complaint) == (0, "")
            assert told.startswith(f"pulled {data}/snapshots/{VERSION}")
    assert held(data) == {VERSION}


def test_a_model_is_registered_and_its_alias_is_pulled(
    mlflow: MLflowServer, model, tmp_path: Path, capsys, monkeypatch
):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t")
    mlflow.token = "t"
    data = tmp_path / "data"
    assert run(["push", str(model), "models:/our films@champion"]) == 0
    assert run(["push", str(model), "models:/our films"]) == 0
    assert run(["push", str(model), "models:/our films@challenger"]) == 0
    told, following = zip(*(line.split("  next ") for line in capsys.readouterr().out.splitlines()), strict=True)
    assert following[1] == "nearfield pull 'models:/our films/1'"
    names = [f"models:/our films{end}" for end in ("@champion", "/1", "@challenger")]
    assert told == (f"pushed {names[0]}", f"unchanged {names[1]}", f"unchanged {names[2]}")
    assert mlflow.artifacts == {f"0/0/artifacts/{VERSION}/{name}": (model / name).read_bytes() for name in FILES}
    assert mlflow.runs == ["FINISHED"]
    for source in names:
        assert run(["pull", source, "--data", str(data)]) == 0
        assert snapshot.verify(data / "snapshots", VERSION)
    assert run(["push", str(altered(model, n_ratings=7)), "models:/our films@champion"]) == 1
    assert f"models:/our films/1 is another snapshot of {VERSION}" in capsys.readouterr().err
    mlflow.token = "other"
    assert run(["push", str(model), "models:/our films"]) == 1
    assert "MLFLOW_TRACKING_TOKEN" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["arrays.safetensors", "manifest.json"])
def test_what_mlflow_has_only_a_part_of_is_refused(mlflow: MLflowServer, model, tmp_path: Path, name, capsys) -> None:
    pulling = ["pull", "models:/films@champion", "--data", str(tmp_path / "data")]
    mlflow.broken = name
    assert run(["push", str(model), "models:/films@champion"]) == 1
    assert "--serve-artifacts" in capsys.readouterr().err
    assert (mlflow.runs, mlflow.models, mlflow.aliases) == (["FAILED"], {"films": []}, {})
    assert run(pulling) == 2
    assert "there is no model models:/films@champion" in capsys.readouterr().err
    mlflow.broken = ""
    assert run(["push", str(model), "models:/films@champion"]) == 0
    mlflow.artifacts[f"0/1/artifacts/{VERSION}/{name}"] += b" "
    assert run(pulling) == 1
    assert name in capsys.readouterr().err
    assert held(tmp_path / "data") == set()


def test_artifacts_may_be_in_an_object_store(mlflow: MLflowServer, server: ObjectServer, model, tmp_path: Path, capsys):
    mlflow.root = "s3://bucket/mlruns"
    assert run(["push", str(model), "models:/films@champion"]) == 0
    assert f"/bucket/mlruns/0/0/artifacts/{VERSION}/manifest.json" in server.objects
    assert run(["pull", "models:/films@champion", "--data", str(tmp_path / "data")]) == 0
    assert held(tmp_path / "data") == {VERSION}
    mlflow.root = "file:///srv/mlruns"
    assert run(["push", str(model), "models:/other"]) == 2
    assert "expected an object store, or a server with --serve-artifacts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "target", "uri", "code", "reason"),
    [
        ("pull", "models:/films", None, 2, "expected models:/films@ALIAS or models:/films/NUMBER"),
        ("pull", "models:/a/b/c", None, 2, "expected models:/NAME@ALIAS"),
        ("pull", "models:/films'@x", None, 2, "expected models:/NAME@ALIAS"),
        ("push", "models:/films/3", None, 2, "expected models:/NAME or models:/NAME@ALIAS to push to, got /3"),
        ("pull", "models:/films/3", "", 2, "Invalid MLFLOW_TRACKING_URI: expected http:// or https:// of a server"),
        ("pull", "models:/films/3", "sqlite:///secret.db", 2, "got sqlite://…"),
        ("pull", "models:/films/3", "http://127.0.0.1:1", 1, "failed"),
        ("pull", "models:/films/3", "{}/behind", 1, "expected an answer of MLflow"),
    ],
)
def test_registered_models_that_cannot_be_used(
    mlflow: MLflowServer, model, tmp_path: Path, command, target, uri, code, reason, capsys, monkeypatch
) -> None:
    if uri is not None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.format(mlflow.url))
    options = [str(model), target] if command == "push" else [target, "--data", str(tmp_path / "data")]
    assert run([command, *options]) == code
    assert reason in (told := capsys.readouterr().err)
    assert "secret" not in told


def test_the_examples_of_the_page(out: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    """Run in order; each prints what the page says."""
    text = (Path(__file__).parents[4] / "docs" / "registry.md").read_text("utf-8").replace("$PWD", str(tmp_path))
    block = next(part for part in text.split("```bash\n")[1:] if part.startswith("$ nearfield")).split("```")[0]
    log = RatingLog(tmp_path / "DATA" / "ratings")
    log.files.write(entries()[0].id, entries()[-1].id, [table_of(entries())])
    shutil.copytree(out, tmp_path / "MODEL_DIR")
    monkeypatch.chdir(tmp_path)
    for example in block.removeprefix("$ ").split("\n$ "):
        command, told = example.split("\n", 1)
        assert run(shlex.split(command)[1:]) == 0
        assert capsys.readouterr().out.strip() == told.strip()


SECRET, OTHER = "a key of sixteen characters", "another key of this length"


@pytest.mark.parametrize("url", ["s3://bucket/models", "models:/films@champion"])
def test_with_a_key_only_signed_models_are_taken(
    server: ObjectServer, mlflow: MLflowServer, model: Path, tmp_path: Path, url: str, monkeypatch, capsys
) -> None:
    def pulled(key: str | None) -> int:
        shutil.rmtree(tmp_path / "data", ignore_errors=True)
        if key is None:
            monkeypatch.delenv("NEARFIELD_MODEL_KEY", raising=False)
        else:
            monkeypatch.setenv("NEARFIELD_MODEL_KEY", key)
        source = url if url.startswith("models:") else f"{url}/{VERSION}"
        status = run(["pull", source, "--data", str(tmp_path / "data")])
        assert (tmp_path / "data/snapshots" / VERSION).is_dir() == (status == 0)
        return status

    assert run(["push", str(model), url]) == 0
    assert (pulled(None), pulled(SECRET)) == (0, 1)
    assert "expected a manifest.hmac of its manifest under NEARFIELD_MODEL_KEY" in capsys.readouterr().err
    monkeypatch.setenv("NEARFIELD_MODEL_KEY", SECRET)
    if url.startswith("models:"):  # whose versions cannot change
        shutil.move(model, model := model.with_name("als-20260201T120000-1a2b"))
        altered(model, version=model.name)
        monkeypatch.setattr(sys.modules[__name__], "VERSION", model.name)
    assert run(["push", str(model), url]) == 0  # adds the signature
    assert [pulled(key) for key in (None, SECRET, f"{OTHER},{SECRET}", OTHER)] == [0, 0, 0, 1]
    altered(model, mean=4.0)  # by a writer of the store without the key
    stored = server.objects if url.startswith("s3:") else mlflow.artifacts
    for path in [path for path in stored if path.endswith((f"{model.name}/manifest.json", "manifest.sha256"))]:
        stored[path] = (model / path.rpartition("/")[2]).read_bytes()
    assert (pulled(SECRET), pulled(None)) == (1, 0)
