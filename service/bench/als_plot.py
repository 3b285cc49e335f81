"""How the time of an iteration grows, as a picture: with F, with the ratings, and with the users."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from service.bench.als import Iteration
from service.bench.report import machine

PANELS = ("factors", "ratings, all users", "users, all their ratings")


def draw(rows: Sequence[Iteration], path: Path) -> None:
    """Milliseconds of an iteration over each of the three, both axes logarithmic, a line for each of the others."""
    import matplotlib  # noqa: PLC0415 - half a second, and only wanted at the end

    matplotlib.use("agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(13, 4.2), layout="constrained", sharey=True)
    for axes, label, lines in zip(panels, PANELS, series(rows), strict=True):
        for title, points in lines.items():
            axes.plot(*zip(*points, strict=True), marker="o", label=title)
        axes.set(xlabel=label, xscale="log", yscale="log")
        axes.grid(True, which="both", alpha=0.3)
        axes.legend()
    panels[0].set_ylabel("milliseconds of an iteration")
    about = machine()
    figure.suptitle(f"{rows[0].algorithm}: {about['processor']}, {about['cores']} cores, commit {about['commit']}")
    figure.savefig(path, dpi=120)


def series(rows: Sequence[Iteration]) -> list[dict[str, list[tuple[float, float]]]]:
    """For each of `PANELS` its lines: title → (x, milliseconds), ascending; the whole matrix ends each line."""
    n_users, n_ratings = max(row.n_users for row in rows), max(row.n_ratings for row in rows)
    whole = [row for row in rows if (row.n_users, row.n_ratings) == (n_users, n_ratings)]
    fewer_ratings = [row for row in rows if row.n_users == n_users]
    fewer_users = [row for row in rows if row.n_users < n_users] + whole
    return [_lines(whole, "n_factors", False), *(
        _lines(part, x, True) for part, x in ((fewer_ratings, "n_ratings"), (fewer_users, "n_users"))
    )]  # fmt: skip


def _lines(rows: Sequence[Iteration], x: str, by_factors: bool) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in sorted(rows, key=lambda row: (row.n_factors, getattr(row, x))):
        title = f"{row.code}, F = {row.n_factors}" if by_factors else row.code
        lines.setdefault(title, []).append((getattr(row, x), row.iteration_ms))
    return lines
