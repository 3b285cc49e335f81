"""Draws what measurements printed with `--json`.

`python -m benchmarks.pictures als PICTURE LINES` draws how the time of an iteration of ALS grows with F, with the
ratings, and with the users. `… nmf PICTURE LINES TITLE [LINES TITLE …]` draws the error of factorizations over time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

Record = dict[str, Any]


class Panel(NamedTuple):
    """Lines of points (x, y) by title; `ticks` of x, and whether y is logarithmic too."""

    lines: dict[str, list[tuple[float, float]]]
    labels: dict[str, str]
    ticks: Sequence[float] = ()
    is_log: bool = False


def draw(rows: Sequence[Sequence[Panel]], path: Path) -> None:
    """Rows of panels with logarithmic x."""
    import matplotlib  # noqa: PLC0415 - only for pictures of the documentation

    matplotlib.use("agg")
    from matplotlib import pyplot, ticker  # noqa: PLC0415

    n_columns = max(map(len, rows))
    size = (4.6 * n_columns, 3.9 * len(rows))
    figure, grid = pyplot.subplots(len(rows), n_columns, figsize=size, layout="constrained", squeeze=False)
    titles = list(dict.fromkeys(title for row in rows for panel in row for title in panel.lines))
    for axes_of_row, row in zip(grid, rows, strict=True):
        for axes, panel in zip(axes_of_row, row, strict=False):
            for title, points in panel.lines.items():
                marker = "o" if panel.is_log else "." if len(points) < 20 else None
                axes.plot(*zip(*points, strict=True), label=title, color=f"C{titles.index(title)}", marker=marker)
            axes.set(xscale="log", yscale="log" if panel.is_log else "linear", **panel.labels)
            axes.xaxis.set_minor_formatter(ticker.NullFormatter())
            if panel.ticks:
                axes.set_xticks(panel.ticks, [f"{x / 1e6:.3g} M" if x >= 1e5 else f"{x:g}" for x in panel.ticks])
            axes.grid(True, which="both", alpha=0.3)
            axes.legend(fontsize="small")
        for axes in axes_of_row[len(row) :]:
            axes.set_visible(False)
    figure.savefig(path, dpi=120)


def growth(records: Sequence[Record]) -> list[Panel]:
    """Milliseconds of an iteration by F, by ratings, and by users. The whole matrix is the last point."""
    rows = [record for record in records if "iteration_ms" in record]
    most = {name: max(row[name] for row in rows) for name in ("n_users", "n_ratings")}
    whole = [row for row in rows if all(row[name] == n for name, n in most.items())]
    fewer_ratings = [row for row in rows if row["n_users"] == most["n_users"]]
    fewer_users = [row for row in rows if row["n_users"] < most["n_users"]] + whole

    def panel(of: Sequence[Record], x: str, label: str, title: str) -> Panel:
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in sorted(of, key=lambda row: (row["n_factors"], row[x])):
            lines.setdefault(title.format_map(row), []).append((row[x], row["iteration_ms"]))
        shown = {title: points for title, points in lines.items() if len(points) > 1 or len(lines) == 1}
        ticks = sorted({point for points in shown.values() for point, _ in points})
        return Panel(shown, {"xlabel": label, "ylabel": "milliseconds of an iteration"}, ticks, is_log=True)

    return [
        panel(whole, "n_factors", "factors", "{code}"),
        panel(fewer_ratings, "n_ratings", "ratings, all users", "{code}, F = {n_factors}"),
        panel(fewer_users, "n_users", "users, all their ratings", "{code}, F = {n_factors}"),
    ]


def errors(title: str, records: Sequence[Record]) -> list[Panel]:
    """The relative error over seconds, a panel for each K."""
    panels: dict[int, Panel] = {}
    for record in records:
        if set(record) == {"code", "n_factors", "seconds", "relative_error"}:
            k = record["n_factors"]
            labels = {"title": f"{title}, K = {k}", "xlabel": "seconds", "ylabel": "relative error"}
            lines = panels.setdefault(k, Panel({}, labels)).lines
            lines.setdefault(record["code"], []).append((record["seconds"], record["relative_error"]))
    return list(panels.values())


def lines_of(path: str) -> list[Record]:
    """The records of a file."""
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


if __name__ == "__main__":
    kind, picture, *rest = sys.argv[1:]
    pairs = zip(rest[::2], rest[1::2], strict=True) if kind == "nmf" else ()
    draw([errors(title, lines_of(path)) for path, title in pairs] or [growth(lines_of(rest[0]))], Path(picture))
