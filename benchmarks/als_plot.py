"""Draws how the time of an iteration grows with F, with the ratings, and with the users.

`python -m benchmarks.als_plot PICTURE LINES` draws what `python -m benchmarks als --json` printed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PANELS = ("factors", "ratings, all users", "users, all their ratings")

Line = list[tuple[float, float]]


def draw(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Milliseconds per iteration over each of `PANELS`, on logarithmic axes; a line for each program and F."""
    import matplotlib  # noqa: PLC0415 - only for pictures of the documentation

    matplotlib.use("agg")
    from matplotlib import pyplot  # noqa: PLC0415

    rows = [record for record in records if "iteration_ms" in record]
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(14, 4.2), layout="constrained", sharey=True)
    for axes, label, lines in zip(panels, PANELS, series(rows), strict=True):
        for title, points in lines.items():
            if len(points) == 1 and len(lines) > 1:
                continue  # a single point shows no growth
            axes.plot(*zip(*points, strict=True), marker="o", label=title)
        ticks = sorted({x for points in lines.values() for x, _ in points if len(points) > 1 or len(lines) == 1})
        axes.set(xlabel=label, xscale="log", yscale="log")
        axes.set_xticks(ticks, labels=[_short(tick) for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
        axes.grid(True, which="both", alpha=0.3)
        axes.legend(fontsize="small")
    panels[0].set_ylabel("milliseconds of an iteration")
    figure.suptitle(f"{rows[0]['algorithm']}: {rows[0]['code']}")
    figure.savefig(path, dpi=120)


def _short(number: float) -> str:
    return f"{number / 1e6:.3g} M" if number >= 1e5 else f"{number:g}"


def series(rows: Sequence[dict[str, Any]]) -> list[dict[str, Line]]:
    """For each of `PANELS`: title → line of (x, milliseconds), ascending. The whole matrix is the last point."""
    n_users, n_ratings = max(row["n_users"] for row in rows), max(row["n_ratings"] for row in rows)
    whole = [row for row in rows if (row["n_users"], row["n_ratings"]) == (n_users, n_ratings)]
    fewer_ratings = [row for row in rows if row["n_users"] == n_users]
    fewer_users = [row for row in rows if row["n_users"] < n_users] + whole
    return [
        _lines(whole, "n_factors", "{code}"),
        _lines(fewer_ratings, "n_ratings", "{code}, F = {n_factors}"),
        _lines(fewer_users, "n_users", "{code}, F = {n_factors}"),
    ]


def _lines(rows: Sequence[dict[str, Any]], x: str, title: str) -> dict[str, Line]:
    lines: dict[str, Line] = {}
    for row in sorted(rows, key=lambda row: (row["n_factors"], row[x])):
        lines.setdefault(title.format_map(row), []).append((row[x], row["iteration_ms"]))
    return lines


if __name__ == "__main__":
    draw([json.loads(line) for line in Path(sys.argv[2]).read_text("utf-8").splitlines()], Path(sys.argv[1]))
