"""Writes the result as JSON with a description of the machine, as tables, and as pictures."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

LINES = ("p50", "p99")


def environment() -> dict[str, object]:
    """Hardware, software and commit of this run."""
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": _output("git", "rev-parse", "--short", "HEAD"),
        "changed": bool(_output("git", "status", "--porcelain", "--untracked-files=no")),
        "cpu": _from_file(Path("/proc/cpuinfo"), "model name"),
        "cores": os.cpu_count(),
        "gpu": _output("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"),
        "memory": _from_file(Path("/proc/meminfo"), "MemTotal"),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def write(out: Path, arguments: dict[str, str], machine: dict[str, Any], workloads: dict[str, Any]) -> list[Path]:
    """Write `result.json`, a picture per workload and `report.md` into the folder `out`; return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    result = {"environment": machine, "arguments": arguments, "workloads": workloads}
    raw, tables = out / "result.json", out / "report.md"
    raw.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    pictures = [out / f"{name}.png" for name in workloads]
    for (name, measured), picture in zip(workloads.items(), pictures, strict=True):
        plot(name, every_step(measured), machine, picture)
    tables.write_text(_tables(result, pictures), "utf-8")
    return [raw, *pictures, tables]


def every_step(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """All steps of a workload, in order of rate."""
    steps = [*measured["steps"], *([measured["half"]] if "half" in measured else [])]
    return sorted(steps, key=lambda step: float(step["rate_per_s"]))


def _tables(result: dict[str, Any], pictures: list[Path]) -> str:
    machine = result["environment"]
    lines = [
        "# Load test",
        "",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory']}, GPU: {machine['gpu'] or 'none'};"
        f" {machine['system']}, Python"
        f" {machine['python']}; commit {machine['commit']}{' with changes' if machine['changed'] else ''};"
        f" {machine['date']}",
        "",
        "Milliseconds from the moment a request was due. `refused`: until a 429 or 503 (p99). `late`: how late the"
        " driver itself sent a request (p99). `machine`: how late a process was that only looks at the clock (p99.9);"
        " what it is late, the machine stopped. `freshness`:"
        " from the 202 for a rating to a list that reflects it; `learned`: until its refits are done. `cores`:"
        " processor time of the API process a second; `GPU GB`: its arrays.",
    ]
    for (name, measured), picture in zip(result["workloads"].items(), pictures, strict=True):
        lines += ["", f"## {name}", ""]
        if "maximum_per_s" in measured:
            lines += [f"Keeps up to {measured['maximum_per_s']:g} requests a second; the step at half of it:", ""]
            lines += [*_table([measured["half"]]), ""]
        if measured["steps"]:
            lines += ["Every step:", "", *_table(every_step(measured)), "", f"![{name}]({picture.name})"]
    return "\n".join(lines) + "\n"


def _table(steps: list[dict[str, Any]]) -> list[str]:
    names = [
        "offered, 1/s",
        "read p50",
        "p99",
        "write p50",
        "p99",
        "freshness p50",
        "p99",
        "learned p99",
        "errors",
        "refused",
        "late",
        "machine",
        "cores",
        "learned, 1/s",
        "GPU GB",
        "retrains",
    ]
    rows = [_cells(step) for step in steps]
    return ["| " + " | ".join(row) + " |" for row in (names, ["---"] * len(names), *rows)]


def _cells(step: dict[str, Any]) -> list[str]:
    latencies = [step["kinds"].get(kind, {}).get("latency_ms", {}) for kind in ("read", "write")]
    latencies.append(step.get("freshness", {}).get("ms", {}))
    times = [f"{found[p]:.1f}" if p in found else "" for found in latencies for p in ("p50", "p99")]
    learned, service = step.get("freshness", {}).get("learned_ms", {}), step.get("service", {})
    refused = max(kind.get("refused_ms", {}).get("p99", 0.0) for kind in step["kinds"].values())
    retrains = step.get("retrains", [])
    live = sum(bool(job["promoted"]) for job in retrains)
    trained = f"{len(retrains)}, {live} live" if retrains else ""
    return [
        f"{step['rate_per_s']:g}",
        *times,
        f"{learned['p99']:.1f}" if learned else "",
        str(n_errors(step)),
        f"{refused:.1f}" if refused else "",
        f"{step['sent_late_ms'].get('p99', 0):.1f}",
        f"{step['machine_late_ms']['p99.9']:.1f}" if "machine_late_ms" in step else "",
        f"{service['cores']:.2f}" if service else "",
        f"{service['learned_per_s']:,.0f}" if "freshness" in step and service else "",
        f"{service['device_arrays_bytes'] / 1e9:.2f}" if "device_arrays_bytes" in service else "",
        trained,
    ]


def n_errors(step: dict[str, Any]) -> int:
    """Number of requests without a good answer, lost probes and failed trainings."""
    statuses = [pair for kind in step["kinds"].values() for pair in kind["statuses"].items()]
    failed = [job for job in step.get("retrains", []) if job["state"] != "succeeded"]
    bad = sum(int(n) for status, n in statuses if not 200 <= int(status) < 300)
    return bad + int(step.get("freshness", {}).get("lost", 0)) + len(failed)


def plot(name: str, steps: list[dict[str, Any]], machine: dict[str, Any], path: Path) -> None:
    """Plot percentiles of latency and freshness, and the rate of answers, over the offered rate."""
    import matplotlib  # noqa: PLC0415 - takes half a second and is needed only at the end

    matplotlib.use("agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, (latency, answered) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    _plot_latency(latency, steps)
    _plot_answered(answered, steps)
    figure.suptitle(f"{name}: {machine['cpu']}, {machine['cores']} cores, commit {machine['commit']}")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _plot_latency(axes: Any, steps: list[dict[str, Any]]) -> None:
    series = {kind: [step["kinds"].get(kind, {}).get("latency_ms", {}) for step in steps] for kind in ("read", "write")}
    series["freshness"] = [step.get("freshness", {}).get("ms", {}) for step in steps]
    series["learned"] = [step.get("freshness", {}).get("learned_ms", {}) for step in steps]
    for kind, found in series.items():
        for line in LINES if any(found) else ():
            points = [(step["rate_per_s"], values.get(line)) for step, values in zip(steps, found, strict=True)]
            axes.plot(*zip(*points, strict=True), marker="o", label=f"{kind} {line}")
    axes.set(xlabel="offered requests per second", ylabel="ms", xscale="log", yscale="log")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize="x-small", ncols=2)


def _plot_answered(axes: Any, steps: list[dict[str, Any]]) -> None:
    offered = [step["rate_per_s"] for step in steps]
    answered = [sum(kind["good_per_s"] for kind in step["kinds"].values()) for step in steps]
    axes.plot(offered, offered, linestyle="--", color="gray", label="offered")
    axes.plot(offered, answered, marker="o", label="answered well")
    axes.set(xlabel="offered requests per second", ylabel="answered requests per second", xscale="log", yscale="log")
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
