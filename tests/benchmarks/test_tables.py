"""A table says what the rows say."""

import math

from benchmarks import tables
from benchmarks.rows import BEST, DEFAULT, GRID, OURS, PEER, TUNED, Row, Store


def store_of(*rows):
    store = Store(None)
    store.rows += rows
    return store


def estimate(method, kind, stage, rmse, settings=None, note=""):
    return Row("ml-1m", "estimates", method, kind, stage, settings or {}, {"rmse": rmse}, 1.0, "host", note=note)


def lists(method, stage, ndcg, recall):
    metrics = {"ndcg@10": ndcg, "recall@20": recall}
    return Row("lastfm", "lists", method, OURS, stage, {}, metrics, 1.0, "host")


def lines_of(table):
    return [line for line in table.splitlines() if line.startswith("| ")][2:]


def test_a_line_for_each_method_in_the_order_of_the_sets():
    table = tables.defaults_table(
        store_of(
            lists("als-implicit", DEFAULT, 0.3, 0.25),
            lists("als-implicit", BEST, 0.4, 0.35),
            estimate("als", OURS, DEFAULT, 0.85),
            estimate("als", OURS, GRID, 0.86, {"n_epochs": 4}),
            estimate("als", OURS, GRID, 0.84, {"n_epochs": 8}),
            estimate("als", OURS, BEST, 0.84, {"n_epochs": 8}),
            estimate("als", OURS, TUNED, 0.845, {"n_factors": 8}),
        )
    )
    assert lines_of(table) == [
        "| ml-1m | RMSE | **als** | 0.8500 | 0.8400 | +1.19 % | 0.8450 | 2 | n_epochs=8 |",
        "| lastfm | NDCG@10, Recall@20 | **als-implicit** | 0.3000 0.2500 | 0.4000 0.3500 | +25.00 % | – | 0"
        " | the defaults |",
    ]


def test_what_failed_and_what_was_not_measured_shows():
    table = tables.defaults_table(
        store_of(
            estimate("slow", PEER, DEFAULT, math.nan, note="over 600 s"),
            estimate("peer", PEER, DEFAULT, 0.9),
            estimate("peer", PEER, GRID, math.nan, {"k": 1}, note="over 600 s"),
            estimate("peer", PEER, GRID, 0.8, {"bsl_options": {"reg_u": 2}}),
            estimate("peer", PEER, BEST, 0.8, {"bsl_options": {"reg_u": 2}}),
        )
    )
    assert lines_of(table) == [
        "| ml-1m | RMSE | slow | over 600 s | – | – | – | – | – |",
        "| ml-1m | RMSE | peer | 0.9000 | 0.8000 | +12.50 % | – | 2 (1 failed) | reg_u=2 |",
    ]


def test_the_newest_row_counts():
    table = tables.defaults_table(store_of(*(estimate("als", OURS, DEFAULT, rmse) for rmse in (0.9, 0.8))))
    assert lines_of(table) == ["| ml-1m | RMSE | **als** | 0.8000 | – | – | – | – | – |"]


def test_a_column_for_each_metric():
    one = Row(
        "ml-1m", "estimates", "als", OURS, "scale", {}, {"× 1": 0.9, "× 20": math.nan}, 1.0, "host", note="diverged"
    )
    other = Row("ml-1m", "estimates", "als", OURS, "stream", {}, {"ms a batch": 1234.56}, 1.0, "host")
    assert lines_of(tables.metrics_table(store_of(one, other), "scale")) == ["| ml-1m | als | 0.9000 | failed |"]
    assert lines_of(tables.metrics_table(store_of(one, other), "stream")) == ["| ml-1m | als | 1234.6 |"]


def test_machines_are_named_once():
    store = store_of(estimate("als", OURS, DEFAULT, 0.9), estimate("sgd", OURS, DEFAULT, 0.9))
    store.machines += [{"processor": "slow"}, {"processor": "slow"}, {"processor": "fast"}]
    comments = [line for line in tables.defaults_table(store).splitlines() if line.startswith("<!--")]
    assert comments == [
        "<!-- {'processor': 'slow'} -->",
        "<!-- {'processor': 'fast'} -->",
        "<!-- {'computed on': 'host'} -->",
    ]
