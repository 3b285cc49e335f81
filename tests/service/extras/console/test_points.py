"""Points of curves on the disk, the alerts that they judge, and what the overview says of both."""

import itertools
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from service.extras.console import points
from service.extras.console.alerts import ALERTS, Scrape, holding
from service.extras.console.counts import CURVES, Counts, counts_of
from service.extras.console.jobs import Job
from service.extras.console.overview import N_DRAWN, drawn, failed, firing
from service.extras.console.points import DAY_S, EVERY_S, N_KEPT, N_MOST, WEEK_S, Recorder, kept, read
from service.storage import files
from service.telemetry.metrics import Metrics

NOW_S = 1.8e9
LASTS = {one.name: one.lasts for one in ALERTS}


def point(at_s: float, *alerts: str) -> Counts:
    return Counts(at_s, [], [], 0.0, 0.0, {}, list(alerts))


def scrape(text: str, at_s: float = NOW_S) -> Scrape:
    return Scrape.of(at_s, text)


# --- on the disk


def test_a_point_is_on_the_disk_and_a_cut_line_costs_one(tmp_path: Path) -> None:
    text = Metrics().text().decode()
    recorder = Recorder(tmp_path)
    recorder.add(text)
    with (tmp_path / CURVES).open("ab") as file:
        file.write(b'\n{"at_s": 17')  # a kill within a write
    recorder.close()
    again = Recorder(tmp_path)
    again.add(text)
    found = read(tmp_path, WEEK_S)
    assert len(found) == 2
    assert found[0].at_s <= found[1].at_s
    assert (tmp_path / CURVES).stat().st_mode & 0o077 == 0


def test_one_process_records_until_it_ends(tmp_path: Path) -> None:
    text = Metrics().text().decode()
    first, second = Recorder(tmp_path), Recorder(tmp_path)
    for recorder in (first, second, first):
        recorder.add(text)
    assert len(read(tmp_path, WEEK_S)) == 2
    first.close()
    second.add(text)
    assert len(read(tmp_path, WEEK_S)) == 3


def test_a_day_is_kept_whole_and_a_week_in_part() -> None:
    n = int(8 * DAY_S / EVERY_S)
    all_points = [point(NOW_S - EVERY_S * number) for number in range(n, -1, -1)]
    left = kept(all_points, NOW_S)
    assert abs(len(left) - N_KEPT) <= 2
    assert left[-1].at_s == NOW_S
    assert NOW_S - WEEK_S <= left[0].at_s < NOW_S - WEEK_S + 600
    assert [one.at_s for one in kept(left, NOW_S)] == [one.at_s for one in left]


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "N_MOST", 10)
    old = [point(NOW_S - 10 * WEEK_S + number) for number in range(10)]
    files.replace(tmp_path / CURVES, b"\n".join(map(msgspec.json.encode, old)))
    Recorder(tmp_path).add(Metrics().text().decode())
    assert (tmp_path / CURVES).read_bytes().count(b"\n") == 0, "the old ones have gone"
    assert N_MOST == 2 * N_KEPT


def test_a_line_is_short() -> None:
    metrics = Metrics()
    metrics.requests.count("GET", "/popular", 200, 0.001)
    for _ in range(3):
        metrics.freshness_seconds.observe((), 0.004)
    recorded = counts_of(metrics.text().decode())
    recorded.alerts = list(LASTS)
    assert len(msgspec.json.encode(recorded)) < points.LINE_BYTES


def test_curves_have_even_points_of_their_hours() -> None:
    hours = [point(NOW_S - EVERY_S * number) for number in range(3000, -1, -1)]
    hour, day = drawn(hours, 1, NOW_S), drawn(hours, 24, NOW_S)
    assert (len(hour), len(day) <= N_DRAWN) == (121, True)
    assert day[-1].at_s == hour[-1].at_s == NOW_S
    assert len({round(b.at_s - a.at_s) for a, b in itertools.pairwise(day)}) == 1
    assert drawn([], 1, NOW_S) == []


# --- alerts

READY = "nearfield_ready 1\n"


@pytest.mark.parametrize(
    ("before", "now", "name"),
    [
        ("", "nearfield_ready 0", "NearfieldNotReady"),
        ("", READY + "nearfield_archiver_lag_seconds 61", "NearfieldLogBehind"),
        ("", READY + 'nearfield_quota_used_ratio{quota="max_users"} 0.91', "NearfieldQuota"),
        ("", READY + "nearfield_rating_log_damaged 1", "NearfieldLogDamaged"),
        ("", READY + 'nearfield_jobs_finished_total{state="failed"} 1', "NearfieldTrainingFailed"),
        ("", READY + 'nearfield_swaps_total{algorithm="als",outcome="failed"} 1', "NearfieldSwapFailed"),
        ("", READY + 'nearfield_writes_refused_total{reason="stream-unavailable"} 2', "NearfieldWritesRefused"),
        (
            'nearfield_requests_total{method="GET",route="/",status="200"} 1000',
            READY
            + 'nearfield_requests_total{method="GET",route="/",status="200"} 1097\n'
            + 'nearfield_requests_total{method="GET",route="/",status="503"} 3',
            "NearfieldErrors",
        ),
        (
            "",
            READY
            + 'nearfield_freshness_seconds_bucket{le="1.0"} 98\nnearfield_freshness_seconds_bucket{le="+Inf"} 100',
            "NearfieldStale",
        ),
        (
            "",
            READY
            + 'nearfield_model_quality{measure="hit_rate",model="als"} 0.1\n'
            + 'nearfield_model_quality{measure="popularity_hit_rate",model="als"} 0.2',
            "NearfieldBehindBaseline",
        ),
        (
            "",
            READY
            + 'nearfield_model_quality{measure="rmse",model="a"} 1.0\nnearfield_model_shadow{model="a"} 0\n'
            + 'nearfield_model_quality{measure="rmse",model="b"} 0.9\nnearfield_model_shadow{model="b"} 1',
            "NearfieldBehindShadow",
        ),
        ("", "", "NearfieldAway"),
    ],
)
def test_each_condition_of_the_rules_holds(before: str, now: str, name: str) -> None:
    assert holding([scrape(before, NOW_S - 60), scrape(now)]) == [name]


def test_conditions_do_not_hold_for_a_service_that_is_well_or_was_restarted() -> None:
    well = (
        READY
        + 'nearfield_requests_total{method="GET",route="/",status="200"} 1000\n'
        + 'nearfield_requests_total{method="GET",route="/",status="503"} 5\n'
        + 'nearfield_requests_total{method="POST",route="/ratings",status="507"} 500\n'
        + 'nearfield_jobs_finished_total{state="failed"} 2\n'
        + 'nearfield_freshness_seconds_bucket{le="1.0"} 99\nnearfield_freshness_seconds_bucket{le="+Inf"} 100\n'
        + "nearfield_archiver_lag_seconds 60"
    )
    assert holding([scrape(well, NOW_S - 60), scrape(well)]) == []
    assert holding([scrape(READY, NOW_S)]) == []
    failed_long_ago = [scrape("", NOW_S - 4000), scrape(well, NOW_S - 3700), scrape(well)]
    assert holding(failed_long_ago) == []


def test_an_alert_fires_when_its_condition_has_lasted() -> None:
    names = ["NearfieldErrors", "NearfieldTrainingFailed"]
    lasting = [point(NOW_S - EVERY_S * number, *names) for number in range(10, -1, -1)]
    assert [one.name for one in firing(lasting, NOW_S)] == names
    assert [one.name for one in firing(lasting[1:], NOW_S)] == names[1:], "four and a half minutes of five"
    lasting[5].alerts = names[1:]
    assert [one.name for one in firing(lasting, NOW_S)] == names[1:]
    assert firing(lasting, NOW_S + 61) == [], "nothing was recorded lately"
    assert firing([], NOW_S) == []


def test_a_failed_job_counts_until_a_later_one_succeeds() -> None:
    def job(name: str, state: Literal["failed", "succeeded"]) -> Job:
        nothing = None, None, None, None, None
        return Job(name, "train", state, 0.0, None, {}, None, name, False, {}, None, [], *nothing, 0, None)

    newest_first = [job("b", "failed"), job("a", "succeeded"), job("a", "failed"), job("b", "succeeded")]
    assert failed(newest_first) == newest_first[:1]
