"""`nearfield doctor`: says whether this machine and these settings can run a service, and what to change if not.

The service makes the same checks when it starts. Here all of them run, also after one that fails.
"""

from __future__ import annotations

import json
import logging
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import metadata
from typing import Any, Literal, NamedTuple

import structlog
import typer

from gpu.base.backend import choose
from gpu.base.host.compilation import openmp_obstacle, threading_layer
from service.base import tuning
from service.cli import complaints
from service.cli.console import FAILED
from service.settings.keyspace import DEFAULT
from service.settings.settings import Settings, unknown_variables
from service.storage import files
from service.storage.events import ZERO
from service.storage.streams.redis_client import connect, text_of, translated
from service.storage.streams.redis_server import find_binary
from service.storage.streams.tail import Tail
from service.storage.streams.verification import Loss, Verification

OLDEST_REDIS = 6, 2
LEAST_FREE_BYTES = 10**9  # of the disk; below it, the log of ratings, models and a rewrite of Redis soon lack room
MOST_SKEW_S = 1.0  # seconds between the clocks; the ids of ratings have the time of Redis
BINARY_TIMEOUT_S = 10.0  # seconds to tell a version

Result = tuple[Literal["ok", "warn", "fail"], str]


class Finding(NamedTuple):
    """What a check says: its state, its name, and a sentence."""

    state: Literal["ok", "warn", "fail"]
    check: str
    message: str


def examine(
    options: dict[str, Any], check_start: Callable[[Settings], None], within_files: Callable[[Settings], Settings]
) -> list[Finding]:
    """Run all checks; those that need settings are left out if the settings are wrong.

    Args:
        options: values by setting; None: not given.
        check_start: raises what a service refuses at its start.
        within_files: see `service.processes.http_server.within_files`.
    """
    found: list[Settings] = []

    def of_settings() -> Result:
        found.append(Settings(**{name: value for name, value in options.items() if value is not None}))
        unknown = unknown_variables(found[0].data_sets)
        check_start(found[0])
        found[0].each()
        if unknown:
            return "warn", f"no setting has the name {', '.join(unknown)}: correct or remove it; the service ignores it"
        return "ok", "a service accepts them"

    usual = structlog.get_config()
    # The findings say what the parts would log to stdout.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        findings = [finding("python", python), finding("openmp", openmp), finding("settings", of_settings)]
        for settings in found:
            checks: dict[str, Callable[[Settings], Result]] = {"gpu": gpu, "redis": redis, "clock": clock, "disk": disk}
            checks["files"] = partial(open_files, within_files)
            findings += [finding(name, partial(check, settings)) for name, check in checks.items()]
    finally:
        structlog.configure(**usual)
    return findings


def report(findings: list[Finding], *, as_json: bool) -> int:
    """Print the findings, a line each or as one JSON array; the exit status, 1 if a check fails."""
    if as_json:
        typer.echo(json.dumps([one._asdict() for one in findings]))
    else:
        for state, check, message in findings:
            typer.echo(f"{state:4}  {check}: {message}")
    return FAILED if any(one.state == "fail" for one in findings) else 0


def finding(name: str, check: Callable[[], Result]) -> Finding:
    """What a check returns, or the error with which it fails, as one line. Raises an unforeseen error."""
    try:
        state, message = check()
    except Exception as error:
        if complaints.exit_code(error) is None:
            raise
        state, message = "fail", complaints.message(error)
    return Finding(state, name, " ".join(message.split()))


def python() -> Result:
    """Whether the package allows this Python."""
    wanted = metadata.metadata("nearfield")["Requires-Python"]
    bounds = {part[:-4].strip(): part[-4:] for part in wanted.split(",")}
    first, end = (tuple(map(int, bounds[sign].split("."))) for sign in (">=", "<"))
    if not first <= sys.version_info[:2] < end:
        return "fail", f"expected Python {wanted}, got {platform.python_version()}; install one of these versions"
    return "ok", f"Python {platform.python_version()}"


def openmp() -> Result:
    """Whether parallel kernels may run on several threads at once."""
    if (layer := threading_layer()) != "omp":
        return "warn", f"expected NUMBA_THREADING_LAYER omp or unset, got {layer}; unset it"
    if (obstacle := openmp_obstacle()) is not None:
        return "fail", f"Numba cannot load OpenMP ({obstacle}); install its runtime (apt-get install libgomp1)"
    return "ok", f"Numba runs its kernels with OpenMP; cores for them: {tuning.n_cores()}"


def gpu(settings: Settings) -> Result:
    """Which backend the service would choose, and why. Raises `BackendUnavailable`."""
    backend = choose(settings.backend).ranking_on(settings.ranking_gpus)
    if backend.name == "device":
        return "ok", f"the service uses {backend.reason}"
    if settings.backend == "host":
        return "ok", "the service uses the CPU, as NEARFIELD_BACKEND says"
    return "warn", f"the service uses the CPU: {backend.reason}; set NEARFIELD_BACKEND=host if you want no GPU"


@contextmanager
def connected(url: str, settings: Settings) -> Iterator[Verification]:
    """The checks of the service on the server at `url`. Raises `StreamUnavailable`."""
    with translated(), connect(url) as client:
        yield Verification(
            client, DEFAULT, settings.appendfsync, Tail(), lambda: ZERO, lambda entries: set(), Loss.NONE
        )


def redis(settings: Settings) -> Result:
    """Whether Redis can be reached, is new enough and keeps what it acknowledges. Raises what its checks raise."""
    if settings.redis is None:
        try:
            command = [str(find_binary()), "--version"]
            told = subprocess.run(command, capture_output=True, text=True, timeout=BINARY_TIMEOUT_S, check=True)  # noqa: S603 (the command is ours)
        except subprocess.SubprocessError as error:
            return "fail", f"the server to embed does not run: {error}; install another one, or set NEARFIELD_REDIS"
        return "ok", f"the service starts {command[0]} ({told.stdout.strip()})"
    with connected(settings.redis, settings) as server:
        version = text_of(server.info("server").get("redis_version", ""))
        is_told = server.check_promises()
    if version and tuple(map(int, version.split(".")[:2])) < OLDEST_REDIS:
        return "fail", f"expected Redis 6.2 or newer, got {version}; upgrade it"
    about = f"version {version}" if version else "a version that it does not tell"
    if not is_told:
        return "warn", f"{about}, which refuses CONFIG GET: check appendonly, appendfsync and maxmemory-policy yourself"
    return "ok", f"{about}, which keeps what it acknowledges"


def clock(settings: Settings) -> Result:
    """Whether the clock of Redis, which dates ratings, agrees with this machine's. Raises `StreamUnavailable`."""
    if settings.redis is None:
        return "ok", "the embedded Redis has the clock of this machine"
    with connected(settings.redis, settings) as server:
        server.info("server")  # so that connecting does not count
        before_s = time.time()
        told_ms = server.clock_ms()
        after_s = time.time()
    if told_ms is None:
        return "warn", "Redis refuses TIME: check yourself that its clock and this machine's agree"
    ahead_s = told_ms / 1000 - (before_s + after_s) / 2
    agree = f"Redis is {abs(ahead_s):.3f} s {'ahead of' if ahead_s > 0 else 'behind'} this machine"
    if abs(ahead_s) > MOST_SKEW_S + (after_s - before_s) / 2:
        return "warn", f"{agree}, more than {MOST_SKEW_S:g} s: set both clocks by NTP"
    return "ok", agree


def disk(settings: Settings) -> Result:
    """Whether DATA, or the folder in which it will be made, can be written and synced, and has room."""
    folder = settings.data.absolute()
    try:
        while not folder.exists():
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
            file.flush()
            began_s = time.perf_counter()
            files.fsync(file.fileno())
            took_ms = (time.perf_counter() - began_s) * 1000
        files.sync(folder)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return "fail", f"Invalid data: expected a folder to write and sync in, got {folder}: {error.strerror}"
    about = f"{folder} has {free / 1e9:,.1f} GB ({free:,} bytes) free, and fsync takes {took_ms:.1f} ms"
    if free < LEAST_FREE_BYTES:
        return "warn", f"{about}: free {LEAST_FREE_BYTES / 1e9:g} GB, or name another folder with NEARFIELD_DATA"
    return "ok", about


def open_files(within_files: Callable[[Settings], Settings], settings: Settings) -> Result:
    """Whether the limit of open files allows `max_connections`. Raises `InvalidSetting`."""
    allowed = within_files(settings).max_connections
    if allowed < settings.max_connections:
        return "warn", (
            f"the limit of open files allows {allowed} connections, fewer than NEARFIELD_MAX_CONNECTIONS,"
            f" {settings.max_connections}: raise it (ulimit -n 65536) or lower the setting"
        )
    return "ok", f"the limit of open files allows NEARFIELD_MAX_CONNECTIONS, {allowed}"
