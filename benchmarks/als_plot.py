"""Draws how the time of an iteration grows with F, with the ratings, and with the users.

`python -m benchmarks.als_plot PICTURE LINES` draws what `python -m benchmarks als --json` printed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Line = list[tuple[float, float]]


def draw(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Milliseconds per iteration, on logarithmic axes; a line for each program and F."""
    import matplotlib  # noqa: PLC0415 - only for pictures of the documentation

    matplotlib.use("agg")
    from matplotlib import pyplot  # noqa: PLC0415

    rows = [record for record in records if "iteration_ms" in record]
    panels = series(rows)
    figure, grid = pyplot.subplots(1, len(panels), figsize=(14, 4.2), layout="constrained", sharey=True)
    for axes, (label, lines) in zip(grid, panels.items(), strict=True):
        for title, points in lines.items():
            if len(points) > 1 or len(lines) == 1:  # a single point shows no growth
                axes.plot(*zip(*points, strict=True), marker="o", label=title)
        ticks = sorted({x for points in lines.values() for x, _ in points if len(points) > 1 or len(lines) == 1})
        axes.set(xlabel=label, xscale="log", yscale="log")
        axes.set_xticks(ticks, labels=[f"{x / 1e6:.3g} M" if x >= 1e5 else f"{x:g}" for x in ticks], minor=False)
        axes.set_xticks([], minor=True)
        axes.grid(True, which="both", alpha=0.3)
        axes.legend(fontsize="small")
    grid[0].set_ylabel("milliseconds of an iteration")
    figure.suptitle(f"{rows[0]['algorithm']}: {rows[0]['code']}")
    figure.savefig(path, dpi=120)


def series(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Line]]:
    """Panel → title → line of (x, milliseconds), ascending. The whole matrix is the last point."""
    n_users, n_ratings = max(row["n_users"] for row in rows), max(row["n_ratings"] for row in rows)
    whole = [row for row in rows if (row["n_users"], row["n_ratings"]) == (n_users, n_ratings)]
    fewer_users = [row for row in rows if row["n_users"] < n_users] + whole

    def lines(of: Sequence[dict[str, Any]], x: str, title: str) -> dict[str, Line]:
        by_title: dict[str, Line] = {}
        for row in sorted(of, key=lambda row: (row["n_factors"], row[x])):
            by_title.setdefault(title.format_map(row), []).append((row[x], row["iteration_ms"]))
        return by_title

    return {
        "factors": lines(whole, "n_factors", "{code}"),
        "ratings, all users": lines(
            [row for row in rows if row["n_users"] == n_users], "n_ratings", "{code}, F = {n_factors}"
        ),
        "users, all their ratings": lines(fewer_users, "n_users", "{code}, F = {n_factors}"),
    }


if __name__ == "__main__":
    draw([json.loads(line) for line in Path(sys.argv[2]).read_text("utf-8").splitlines()], Path(sys.argv[1]))
