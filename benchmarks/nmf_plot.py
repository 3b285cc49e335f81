"""Draws the error of factorizations over time.

`python -m benchmarks.nmf_plot PICTURE LINES TITLE [LINES TITLE …]`
draws what `python -m benchmarks nmf --json` printed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def draw(matrices: Mapping[str, Sequence[dict[str, Any]]], path: Path) -> None:
    """A row of panels per matrix, a panel per K, a line per program; the axis of seconds is logarithmic."""
    import matplotlib  # noqa: PLC0415 - only for pictures of the documentation

    matplotlib.use("agg")
    from matplotlib import pyplot, ticker  # noqa: PLC0415

    panels = {title: curves(records) for title, records in matrices.items()}
    codes = list(dict.fromkeys(code for by_size in panels.values() for lines in by_size.values() for code in lines))
    n_columns = max(map(len, panels.values()))
    size = (4.4 * n_columns, 3.6 * len(panels))
    figure, grid = pyplot.subplots(len(panels), n_columns, figsize=size, layout="constrained", squeeze=False)
    for row, (title, by_size) in zip(grid, panels.items(), strict=True):
        for axes, (k, lines) in zip(row, by_size.items(), strict=False):
            for code, points in lines.items():
                style = {"color": f"C{codes.index(code)}", "marker": "." if len(points) < 20 else None}
                axes.plot(*zip(*points, strict=True), label=code, **style)
            axes.set(title=f"{title}, K = {k}", xlabel="seconds", ylabel="relative error", xscale="log")
            axes.xaxis.set_minor_formatter(ticker.NullFormatter())
            axes.grid(True, which="both", alpha=0.3)
            axes.legend(fontsize="small")
        for axes in row[len(by_size) :]:
            axes.set_visible(False)
    figure.savefig(path, dpi=120)


def curves(records: Sequence[dict[str, Any]]) -> dict[int, dict[str, list[tuple[float, float]]]]:
    """K → code → (seconds, relative error), from the points among the records."""
    by_factors: dict[int, dict[str, list[tuple[float, float]]]] = {}
    for record in records:
        if set(record) == {"code", "n_factors", "seconds", "relative_error"}:
            points = by_factors.setdefault(record["n_factors"], {}).setdefault(record["code"], [])
            points.append((record["seconds"], record["relative_error"]))
    return by_factors


if __name__ == "__main__":
    texts = {title: Path(name).read_text("utf-8") for name, title in zip(sys.argv[2::2], sys.argv[3::2], strict=True)}
    draw({title: [json.loads(line) for line in text.splitlines()] for title, text in texts.items()}, Path(sys.argv[1]))
