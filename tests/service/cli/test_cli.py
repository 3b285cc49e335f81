"""The command line as its users meet it: exit status, stdout, stderr."""

import json
import os
import pty
import resource
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from scipy import io

from gpu.algorithms import ALGORITHMS
from service.__main__ import run
from service.cli import console, synthetic
from service.cli.options import ALGORITHM_NAMES

COMMANDS = ("serve", "worker", "import", "train", "evaluate", "topics")
QUICK = ("n_epochs=3", "n_factors=8", "n_neighbors=4", "n_bits=128")


@pytest.fixture(scope="module")
def ratings_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ratings") / "synthetic.csv"
    synthetic.write(path, synthetic.planted(0, 150, 60))
    return path


@pytest.fixture(scope="module")
def trained(ratings_csv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models")
    learned = ["n_epochs=100", *QUICK[1:]]
    arguments = ["train", "--ratings", str(ratings_csv), "--algorithm", "culsh", "--set", *learned, "--out", str(out)]
    assert run(arguments) == 0
    return out


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def processor_s_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_starts_fast_and_names_every_command():
    started = processor_s_of_children()
    done = subprocess.run([sys.executable, "-m", "service", "--help"], capture_output=True, text=True, check=True)
    assert processor_s_of_children() - started < 3
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)


def test_no_heavy_library_is_loaded_before_a_command_runs():
    code = "import sys, service.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numba", "numpy", "scipy", "pyarrow", "fastapi", "httpx", "uvicorn"} & set(loaded)


def test_no_arguments_ask_for_help(capsys):
    assert run([]) == 0
    assert "\n  serve " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["fly"], "No such command 'fly'"),
        (["bench"], "No such command 'bench'"),
        (["train", "--algorithm", "culsh"], "expected --ratings or --events, or --plan with --shape, got none"),
        (["train", "--ratings", "none.csv", "--algorithm", "culsh"], "none.csv"),
        (["train", "--ratings", "none.csv", "--algorithm", "magic"], "Invalid algorithm: expected one of"),
        (["train", "--ratings", "none.csv", "--algorithm", "culsh", "--set", "n_factors"], "expected NAME=VALUE"),
        (["train", "--ratings", "none.csv", "--algorithm", "culsh", "--set", "depth=3"], "Invalid parameter of culsh"),
        (["train", "--ratings", "none.csv", "--algorithm", "als", "--set", "biases=maybe"], "Invalid biases"),
        (["train", "--ratings", "none.csv", "--algorithm", "als", "--set", "n_factors=2000"], "expected 4 to 1024"),
        (["train", "--ratings", "x", "--algorithm", "sgd", "--test", "x", "--test-fraction", "0.1"], "got both"),
        (["train", "--ratings", "x", "--algorithm", "sgd", "--test", "x", "--split", "last"], "--split, got both"),
        (["train", "--ratings", "x", "--algorithm", "sgd", "--split", "time"], "--test-fraction with --split time"),
        (["train", "--ratings", "x", "--algorithm", "sgd", "--split", "last", "--test-fraction", ".1"], "got last"),
        (["train", "--ratings", "x", "--algorithm", "sgd", "--split", "newest"], "newest"),
        (["evaluate", "--model", "x", "--k", "0"], "numbers from 1 to 1000"),
        (["serve", "--host", "0.0.0.0"], "set NEARFIELD_API_KEY and NEARFIELD_ADMIN_KEY"),
        (["train", "--ratings", "none.csv", "--algorithm", "als", "--seed", "-1"], "'--seed'"),
        (["serve", "--port", "99999"], "Invalid port: expected at most 65535, got 99999"),
        (["serve", "--redis", "localhost:6379"], "Invalid redis: expected a URL"),
        (["export", "--out", "ratings.csv"], "ends with .ndjson, .parquet or .arrow, or --format, got 'ratings.csv'"),
        (["export", "--out", "ratings.ndjson.gz"], "got 'ratings.ndjson.gz'"),
        (["lists", "--out", "x.parquet", "--body", "n=20"], "expected an object of JSON"),
        (["evaluate", "--model", "nowhere", "--test", "none.csv"], "none.csv"),
        (["topics", "--model", "nowhere"], "expected a folder written by `nearfield train --out`"),
    ],
)
def test_bad_usage_is_one_line_on_stderr_and_status_2(arguments, complaint, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    *before, last = printed.err.strip().splitlines()
    assert complaint in last
    assert not [line for line in before if not line.startswith(("backend: ", "Training culsh: "))]


@pytest.mark.parametrize("url", ["rediss//me:hidden@host", "http://host?password=hidden"])
def test_a_password_is_not_shown_when_its_url_is_refused(url, capsys):
    assert run(["serve", "--redis", url]) == 2
    complaint = capsys.readouterr().err
    assert "Invalid redis: expected a URL" in complaint
    assert "hidden" not in complaint


def test_a_key_is_not_shown_when_it_is_refused(capsys, monkeypatch):
    monkeypatch.setenv("NEARFIELD_API_KEY", "")
    monkeypatch.setenv("NEARFIELD_MAX_N", "many")
    assert run(["serve"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("got") == 1
    assert "Invalid max_n: expected a whole number, got 'many'" in complaint


@pytest.mark.parametrize("variable", ["NEARFIELD_PROT", "NEARFIELD_DATA_DIR"])
@pytest.mark.parametrize("command", [["serve"], ["worker"]])
def test_a_misspelled_variable_is_refused(variable, command, capsys, monkeypatch):
    monkeypatch.setenv(variable, "1")
    assert run(command) == 2
    assert f"Invalid variable {variable}: expected the name of a setting" in capsys.readouterr().err


def test_an_unknown_variable_is_told_once(ratings_csv, capsys, monkeypatch):
    monkeypatch.setenv("NEARFIELD_BUILD", "7")
    assert run(["import", str(ratings_csv), "--url", "http://127.0.0.1:9"]) == 1
    assert capsys.readouterr().err.count("ignored: NEARFIELD_BUILD; no setting has this name") == 1


def test_only_serve_asks_for_keys(ratings_csv, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("NEARFIELD_HOST", "0.0.0.0")
    assert run(["import", str(ratings_csv), "--url", "http://127.0.0.1:9"]) == 1
    assert "no service answers" in capsys.readouterr().err
    assert run(["worker", "--data", str(tmp_path), "--redis", "unix:///nowhere/redis.sock", "--backend", "no"]) == 2
    assert "Invalid backend" in capsys.readouterr().err
    assert run(["serve", "--data", str(tmp_path)]) == 2
    assert "set NEARFIELD_API_KEY and NEARFIELD_ADMIN_KEY" in capsys.readouterr().err


def test_the_password_of_a_service_is_not_shown(ratings_csv, capsys):
    for url, complaint in (
        ("http://me:hidden@127.0.0.1:9", "no service answers at http://127.0.0.1:9"),
        ("http://me:hidden@127.0.0.1:port", "Invalid url: expected http://HOST:PORT"),
        ("me:hidden@127.0.0.1", "no service answers at"),
    ):
        assert run(["import", str(ratings_csv), "--url", url]) in (1, 2)
        printed = capsys.readouterr().err
        assert complaint in printed
        assert "hidden" not in printed


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"nearfield {metadata.version('nearfield')}\n"


@pytest.mark.parametrize("command", ["train", "tune"])
def test_help_names_the_algorithms(command, capsys):
    assert sorted(ALGORITHM_NAMES.split(", ")) == list(ALGORITHMS)
    assert run([command, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert ALGORITHM_NAMES in shown
    assert all(f"{name}: {one.learns}" in shown for name, one in ALGORITHMS.items())
    without_ranks = ", ".join(name for name, one in ALGORITHMS.items() if not one.has_ranks)
    assert command == "tune" or f"Processes that train together; not for {without_ranks}." in shown


def test_a_bad_line_is_named_by_number_and_can_be_skipped(ratings_csv, tmp_path, capsys):
    good = ratings_csv.read_text().splitlines()
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join([*good[:5], "ann,x,many", *good[5:]]))
    command = ["train", "--ratings", str(bad), "--algorithm", "sgd", "--set", "n_epochs=1", "--json"]
    assert run(command) == 2
    assert "line 6" in capsys.readouterr().err
    assert run([*command, "--skip-bad"]) == 0
    printed = capsys.readouterr()
    assert "left out line 6" in printed.err
    assert lines(printed.out)[-1]["n_train"] == len(good) - 1


def test_a_file_without_ratings_is_refused(tmp_path, capsys):
    empty = tmp_path / "empty.csv"
    empty.write_text("user,item,rating\n")
    assert run(["train", "--ratings", str(empty), "--algorithm", "culsh"]) == 2
    assert "rating" in capsys.readouterr().err


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_train_prints_json_lines_only(algorithm, ratings_csv, tmp_path, capsys):
    quick = [pair for pair in QUICK if pair.split("=")[0] in ALGORITHMS[algorithm].params.__dataclass_fields__]
    file = ratings_csv
    if ALGORITHMS[algorithm].params.is_ordered:  # it needs times
        head, *rest = ratings_csv.read_text().splitlines()
        file = tmp_path / "timed.csv"
        file.write_text("\n".join([f"{head},timestamp", *(f"{line},{n}" for n, line in enumerate(rest))]))
    command = ["train", "--ratings", str(file), "--algorithm", algorithm, "--test-fraction", "0.1", "--json"]
    assert run([*command, *(["--set", *quick] if quick else [])]) == 0
    *epochs, last = lines(capsys.readouterr().out)
    assert [line["epoch"] for line in epochs] == ([1, 2, 3] if QUICK[0] in quick else [1])
    seconds = [line["seconds"] for line in epochs]
    assert seconds == sorted(seconds)
    assert "epoch" not in last
    assert last["done"] is True
    assert last["peak_memory_bytes"] > 1 << 20
    name, pick = ("test_ndcg@10", max) if ALGORITHMS[algorithm].params.is_implicit else ("test_rmse", min)
    assert last[f"best_{name}"] == pick(line[name] for line in epochs)
    assert epochs[last["best_epoch"] - 1][name] == last[f"best_{name}"]
    assert last[f"baseline_{name}"] > 0
    assert (last.get("values") == "ratings") == ALGORITHMS[algorithm].params.has_values == ("dislikes_below" in last)


def test_train_tells_its_phases_when_piped(ratings_csv, tmp_path, capsys):
    command = ["train", "--ratings", str(ratings_csv), "--algorithm", "als", "--out", str(tmp_path / "models")]
    assert run([*command, "--set", "n_factors=4"]) == 0
    told = capsys.readouterr().err
    phases = [line.removeprefix("Training als: ") for line in told.splitlines() if line.startswith("Training als: ")]
    assert phases == ["reading", "training", "measuring", "writing"]
    assert "\x1b" not in told


@pytest.mark.parametrize("suffix", [".npz", ".mat"])
def test_topics_of_a_matrix(suffix, tmp_path, capsys):
    """Two kinds of documents with words of their own: two factors, each with the words and documents of one kind."""
    matrix = np.zeros((8, 6))
    matrix[:4, :3], matrix[4:, 3:] = 2, 1
    save = np.savez if suffix == ".npz" else (lambda path, fea: io.savemat(path, {"fea": fea}))
    save(tmp_path / f"words{suffix}", fea=matrix)
    command = ["train", "--ratings", str(tmp_path / f"words{suffix}"), "--algorithm", "nmf", "--json"]
    assert run([*command, "--set", "n_factors=2", "--out", str(tmp_path / "models")]) == 0
    *epochs, last = lines(capsys.readouterr().out)
    assert all("relative_error" in line for line in epochs)
    assert last["best_relative_error"] < 1e-2
    assert run(["topics", "--model", str(tmp_path / "models"), "--json"]) == 0
    strong, weak = lines(capsys.readouterr().out)
    assert (set(strong["items"]), set(strong["users"])) == ({"0", "1", "2"}, {"0", "1", "2", "3"})
    assert (set(weak["items"]), set(weak["users"])) == ({"3", "4", "5"}, {"4", "5", "6", "7"})
    assert strong["weight"] == pytest.approx(2 * weak["weight"], rel=1e-2)
    assert run(["topics", "--model", str(tmp_path / "models"), "--top", "1"]) == 0
    assert "items " in capsys.readouterr().out


def test_what_cannot_be_measured_is_null(trained, tmp_path, capsys):
    (tmp_path / "nothing.csv").write_text("user,item,rating\n")
    assert run(["evaluate", "--model", str(trained), "--test", str(tmp_path / "nothing.csv"), "--json"]) == 0
    (line,) = lines(capsys.readouterr().out)
    assert (line["rmse"], line["ndcg@10"]) == (None, None)


def test_a_folder_that_cannot_be_written_is_refused_before_training(ratings_csv, tmp_path, capsys):
    (tmp_path / "file").touch()
    out = str(tmp_path / "file" / "models")
    assert run(["train", "--ratings", str(ratings_csv), "--algorithm", "als", "--out", out]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert out in printed.err


def test_topics_are_those_of_nmf_alone(trained, capsys):
    assert run(["topics", "--model", str(trained)]) == 2
    assert "expected one trained by nmf, got culsh" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("matrix", "complaint"),
    [
        ([[1.0, -2.0]], "Invalid ratings for nmf: expected 0 or more, got -2; train als-implicit"),
        ([[1.0, 0.0], [0.0, -2.0]], "(user '1', item '1')"),
        ([[1.0, np.nan]], "finite in float32, got nan"),
        ([[1.0, 2j]], "expected a matrix of real numbers"),
        ([[[1.0], [2.0]]], "with two axes"),
        ([[0.0, 0.0]], "expected at least one rating"),
    ],
)
def test_a_matrix_of_no_use_is_one_line_on_stderr(matrix, complaint, tmp_path, capsys):
    np.savez(tmp_path / "m.npz", m=np.array(matrix))
    assert run(["train", "--ratings", str(tmp_path / "m.npz"), "--algorithm", "nmf"]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("given", [[], ["biases=false"], ["biases=0", "solver=cholesky", "precision=float32"]])
def test_parameters_that_are_words(given, ratings_csv, tmp_path, capsys):
    command = ["train", "--ratings", str(ratings_csv), "--algorithm", "als", "--out", str(tmp_path), "--json"]
    assert run([*command, "--set", "n_epochs=1", "n_factors=4", *given]) == 0
    folder = Path(lines(capsys.readouterr().out)[-1]["snapshot"])
    assert json.loads((folder / "manifest.json").read_text())["parameters"]["biases"] is (not given)


def test_the_backend_is_named_with_its_reason_as_it_is(ratings_csv, capsys, monkeypatch):
    monkeypatch.setattr("gpu.base.device.obstacle", lambda: "there is no CuPy: pip install '.[gpu]'")
    command = ["train", "--ratings", str(ratings_csv), "--algorithm", "als", "--set", "n_epochs=1", "n_factors=4"]
    assert run(command) == 0
    assert "backend: host (there is no CuPy: pip install '.[gpu]')" in " ".join(capsys.readouterr().err.split())


def test_a_device_that_is_not_there_is_refused_before_the_ratings_are_read(capsys, monkeypatch):
    monkeypatch.setattr("gpu.base.device.obstacle", lambda: "there is no CuPy")
    assert run(["train", "--ratings", "none.csv", "--algorithm", "culsh", "--backend", "device"]) == 1
    assert "expected a usable CUDA device, got none (there is no CuPy); use host" in capsys.readouterr().err


def test_what_goes_on_is_told_in_lines_without_a_terminal(capsys, monkeypatch):
    now_s = iter([0.0, 1.0, 3.0, 6.0, 9.0])
    monkeypatch.setattr("service.cli.console.time.monotonic", lambda: next(now_s))
    with console.progress("   Training", 1) as bar:
        for share, note in (
            (0, "reading"),
            (0, "epoch 1 of 3"),
            (0.3, "epoch 2 of 3"),
            (0.3, "epoch 2 of 3"),
            (1, "writing"),
        ):
            bar.tell(share, note)
    assert capsys.readouterr().err.splitlines() == ["Training: reading", "Training: epoch 2 of 3", "Training: writing"]


def test_json_lines_reach_a_file_while_the_bar_is_on_a_terminal(ratings_csv, tmp_path):
    try:
        terminal, stderr = pty.openpty()
    except OSError as error:  # a sandbox without /dev/pts
        pytest.skip(f"no terminal to be had: {error}")
    command = [sys.executable, "-m", "service", "train", "--ratings", str(ratings_csv), "--algorithm", "sgd"]
    with (tmp_path / "out.jsonl").open("wb") as out:
        code = subprocess.run([*command, "--set", "n_epochs=2", "--json"], stdout=out, stderr=stderr, check=False)
    os.close(stderr)
    shown = os.read(terminal, 1 << 16).decode(errors="replace")  # it may end within a character
    os.close(terminal)
    assert code.returncode == 0
    assert "Training sgd" in shown
    assert [line.get("epoch") for line in lines((tmp_path / "out.jsonl").read_text())] == [1, 2, None]


def test_the_split_is_the_documented_permutation(ratings_csv, tmp_path, capsys):
    """A test file made by hand from the documented split gives the same figures as --test-fraction."""
    rows = ratings_csv.read_text().splitlines()[1:]
    order = np.random.default_rng(7).permutation(len(rows))
    n_test = round(0.2 * len(rows))
    (tmp_path / "test.csv").write_text("\n".join(rows[n] for n in order[:n_test]))
    (tmp_path / "train.csv").write_text("\n".join(rows[n] for n in order[n_test:]))
    last = []
    for source in (
        ["--ratings", str(ratings_csv), "--test-fraction", "0.2", "--seed", "7"],
        ["--ratings", str(tmp_path / "train.csv"), "--test", str(tmp_path / "test.csv")],
    ):
        assert run(["train", "--algorithm", "sgd", *source, "--set", "n_epochs=2", "n_factors=4", "--json"]) == 0
        last.append(lines(capsys.readouterr().out)[-1])
    assert [line["n_test"] for line in last] == [n_test, n_test]
    assert last[0]["best_test_rmse"] == pytest.approx(last[1]["best_test_rmse"], abs=0.005)


def test_the_last_row_of_a_pair_wins_and_counts_once(tmp_path, capsys):
    repeated = tmp_path / "repeated.csv"
    repeated.write_text("a,x,1\nb,x,2\na,x,5\nb,y,4\n")
    assert run(["train", "--ratings", str(repeated), "--algorithm", "sgd", "--set", "n_epochs=1", "--json"]) == 0
    assert lines(capsys.readouterr().out)[-1]["n_train"] == 3


def test_evaluate_measures_errors_and_ranks(trained, ratings_csv, capsys):
    assert run(["evaluate", "--model", str(trained), "--test", str(ratings_csv), "--json"]) == 0
    (measured,) = lines(capsys.readouterr().out)
    assert 0.2 < measured["mae"] < measured["rmse"] < 1
    assert measured["version"] in {path.name for path in trained.iterdir()}


def test_evaluate_measures_the_lists_of_what_train_held_out(ratings_csv, tmp_path, capsys):
    train = ["train", "--ratings", str(ratings_csv), "--algorithm", "als-implicit", "--test-fraction", "0.2", "--json"]
    assert run([*train, "--set", "n_factors=8", "n_epochs=3", "--out", str(tmp_path)]) == 0
    reported = lines(capsys.readouterr().out)[-1]
    assert run(["evaluate", "--model", str(tmp_path), "--k", "20,5,10", "--json"]) == 0
    (measured,) = lines(capsys.readouterr().out)
    assert measured["n_test"] == reported["n_test"]
    assert measured["ndcg@10"] == pytest.approx(reported["test_ndcg@10"])
    assert measured["popular_ndcg@10"] == pytest.approx(reported["baseline_test_ndcg@10"])
    low, high = measured["interval_recall@5"]
    assert low < measured["recall@5"] < measured["recall@10"] < measured["recall@20"]
    assert measured["recall@5"] < high
    assert run(["evaluate", "--model", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert f"ndcg@10       {measured['ndcg@10']:8.4f}   " in text
    assert "95 % of users" in text


def test_evaluate_without_test_ratings_says_so(trained, capsys):
    assert run(["evaluate", "--model", str(trained)]) == 2
    assert "was trained without a held-out part" in capsys.readouterr().err


def test_evaluate_finds_again_what_esgd_reported(ratings_csv, tmp_path, capsys):
    command = ["train", "--ratings", str(ratings_csv), "--algorithm", "esgd", "--test", str(ratings_csv), "--json"]
    assert run([*command, "--set", "n_factors=8", "n_epochs=40", "learning_rate=0.05", "--out", str(tmp_path)]) == 0
    trained = [line for line in lines(capsys.readouterr().out) if line.get("epoch") == 40]
    assert run(["evaluate", "--model", str(tmp_path), "--test", str(ratings_csv), "--json"]) == 0
    (measured,) = lines(capsys.readouterr().out)
    assert measured["algorithm"] == "esgd"
    assert measured["rmse"] == pytest.approx(trained[0]["test_rmse"], abs=1e-6)


def test_evaluate_ranks_new_items_among_given_negatives(trained, ratings_csv, tmp_path, capsys):
    """A user's own genre, held out, must rank above the genre the user avoids more often than chance has it."""
    drawn = synthetic.planted(0, 150, 60)
    held_out, negatives = [], []
    for viewer in range(150):
        rated = set(drawn.items[drawn.viewers == viewer])
        new = [item for item in range(60) if item not in rated]
        loved = [item for item in new if drawn.genre[item] == drawn.taste[viewer].argmax()]
        avoided = [item for item in new if drawn.genre[item] == drawn.taste[viewer].argmin()]
        if loved and avoided:
            held_out.append(f"{drawn.viewer_id(viewer)},{drawn.item_id(loved[0])},5")
            negatives.append(f"{drawn.viewer_id(viewer)},{drawn.item_id(avoided[0])}")
    (tmp_path / "test.csv").write_text("\n".join(held_out))
    (tmp_path / "negatives.csv").write_text("\n".join(negatives))
    files = ["--test", str(tmp_path / "test.csv"), "--negatives", str(tmp_path / "negatives.csv")]
    assert run(["evaluate", "--model", str(trained), *files, "--json"]) == 0
    (measured,) = lines(capsys.readouterr().out)
    assert measured["n_ranked"] == len(held_out)
    assert measured["hr@10"] == 1.0
    assert measured["ndcg@10"] > 0.85  # one negative: 0.815 is chance


def test_evaluate_refuses_an_altered_model(trained, ratings_csv, tmp_path, capsys):
    version = next(path for path in trained.iterdir() if path.is_dir())
    copy = tmp_path / version.name
    copy.mkdir()
    for file in version.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    (copy / "arrays.safetensors").write_bytes((version / "arrays.safetensors").read_bytes()[:-8])
    assert run(["evaluate", "--model", str(copy), "--test", str(ratings_csv)]) == 1
    assert "arrays.safetensors" in capsys.readouterr().err


def test_import_says_at_once_that_nobody_is_there(ratings_csv, capsys):
    assert run(["import", str(ratings_csv), "--url", "http://127.0.0.1:9"]) == 1
    assert "no service answers at http://127.0.0.1:9" in capsys.readouterr().err


def test_tune_finds_parameters(ratings_csv, capsys):
    arguments = ["tune", "--ratings", str(ratings_csv), "--algorithm", "als", "--test-fraction", "0.2"]
    small = ["--set", "n_factors=4", "--set", "n_epochs=2", "--backend", "host", "--json"]
    assert run([*arguments, *small]) == 0
    *trials, closing = map(json.loads, capsys.readouterr().out.splitlines())
    assert [line["trial"] for line in trials] == list(range(1, closing["n_trials"] + 1))
    assert all(line["trial"] <= line["of"] for line in trials)
    assert {line["n_epochs"] for line in trials} == {1, 2}
    assert closing["best_rmse"] in {line["score"] for line in trials if line["round"] >= 3}
    assert [step["step"] for step in closing["steps"]][:2] == ["weights", "n_factors"]
    assert closing["steps"][1]["n_factors"] == 8
    assert closing["best_rmse"] == [step["score"] for step in closing["steps"] if step["is_kept"]][-1]
    assert run([*arguments, *small[:-1]]) == 0
    shown = capsys.readouterr().out
    assert "| step | rmse | gain | standard error | kept |" in shown
    assert shown.splitlines()[-1] == closing["set"]
    assert closing["set"] == " ".join(f"--set {name}={value:.6g}" for name, value in closing["params"].items())


def test_tune_says_why_ratings_cannot_be_used(tmp_path, capsys):
    (tmp_path / "r.csv").write_text("\n".join(f"u{user},i{item},-1" for user in range(30) for item in range(10)))
    arguments = ["tune", "--ratings", str(tmp_path / "r.csv"), "--algorithm", "als-implicit", "--backend", "host"]
    assert run([*arguments, "--set", "values=counts", "--set", "n_factors=4"]) == 2
    assert "expected some above 0, got none" in capsys.readouterr().err
