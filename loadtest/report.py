"""The result as JSON with the machine it was measured on, and as a picture."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

LINES = ("p50", "p99", "p99.9")


def environment() -> dict[str, object]:
    """Hardware, software and commit of this run."""
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": _output("git", "rev-parse", "--short", "HEAD"),
        "changed": bool(_output("git", "status", "--porcelain", "--untracked-files=no")),
        "cpu": _from_file(Path("/proc/cpuinfo"), "model name"),
        "cores": os.cpu_count(),
        "memory": _from_file(Path("/proc/meminfo"), "MemTotal"),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def plot(result: dict[str, Any], path: Path) -> None:
    """Draw latency percentiles and answered requests over the offered rate."""
    import matplotlib  # noqa: PLC0415 - half a second, and only wanted at the end

    matplotlib.use("agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, (latency, answered) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    _plot_latency(latency, result["steps"])
    _plot_answered(answered, result["steps"])
    machine = result["environment"]
    figure.suptitle(f"{result['workload']}: {machine['cpu']}, {machine['cores']} cores, commit {machine['commit']}")
    figure.savefig(path, dpi=120)


def _plot_latency(axes: Any, steps: list[dict[str, Any]]) -> None:
    for kind in sorted({kind for step in steps for kind in step["kinds"]}):
        for line in LINES:
            points = [(step["rate_per_s"], step["kinds"][kind]["latency_ms"].get(line)) for step in steps]
            axes.plot(*zip(*points, strict=True), marker="o", label=f"{kind} {line}")
    axes.set(xlabel="offered requests per second", ylabel="latency from the intended moment, ms", yscale="log")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()


def _plot_answered(axes: Any, steps: list[dict[str, Any]]) -> None:
    offered = [step["rate_per_s"] for step in steps]
    answered = [sum(kind["good_per_s"] for kind in step["kinds"].values()) for step in steps]
    axes.plot(offered, offered, linestyle="--", color="gray", label="offered")
    axes.plot(offered, answered, marker="o", label="answered well")
    axes.set(xlabel="offered requests per second", ylabel="answered requests per second")
    axes.grid(True, alpha=0.3)
    axes.legend()


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _from_file(path: Path, name: str) -> str:
    if not path.exists():
        return "unknown"
    line = next((line for line in path.read_text().splitlines() if line.startswith(name)), ":unknown")
    return " ".join(line.partition(":")[2].split())
