"""`python -m benchmarks neighbors` times the steps that each similarity has."""

import json
import math

import gpu
from benchmarks import neighbors
from benchmarks.__main__ import run
from gpu.params import CulshParams

STEPS = ("weights_ms", "sums_ms", "signatures_ms", "lists_ms")


def steps_of(row):
    """Which steps a row, or a record, has a time for."""
    times = row if isinstance(row, dict) else vars(row)
    return [step for step in STEPS if not math.isnan(times[step])]


def test_every_similarity_has_its_steps(train):
    rows = list(neighbors.run(train, CulshParams(n_neighbors=4, n_bits=100), gpu.HOST, 2))
    assert {(row.similarity, row.psi): steps_of(row) for row in rows} == {
        ("simlsh", "residual"): list(STEPS),
        ("simlsh", "power"): list(STEPS),
        ("gsm", ""): [],
        ("minhash", ""): ["signatures_ms", "lists_ms"],
        ("rp_cos", ""): list(STEPS),
        ("random", ""): [],
    }
    assert {row.n_bits for row in rows} == {0, 128}
    assert all(row.total_ms > 0 and row.n_neighbors == 4 and math.isnan(row.peak_megabytes) for row in rows)
    assert rows[-1].filled_at_random == 1.0


def test_the_command_reads_a_folder(folder, capsys):
    command = ["neighbors", "--ratings", str(folder), "--runs", "1", "--n-bits", "64", "--n-neighbors", "3"]
    assert run([*command, "--backend", "host", "--json"]) == 0
    machine, *rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "command" in machine
    assert [row["similarity"] for row in rows] == ["simlsh", "simlsh", "gsm", "minhash", "rp_cos", "random"]
