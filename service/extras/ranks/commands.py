"""`nearfield cluster scheduler | worker`: Dask on our terms; and the ranks of `nearfield train --ranks`.

Without these commands, ports of Dask listen on all interfaces, and a web server of the scheduler does so without TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from service.cli.console import complain, stderr
from service.extras.ranks.cluster import WAIT_S, Cluster, dask, security, toward
from service.extras.ranks.cluster_address import ClusterAddress
from service.extras.ranks.errors import ClusterUnavailable
from service.extras.ranks.ranks import Ranks

UNREACHED = f"within {WAIT_S:g} s nothing answered there, or not with these certificates"
OWN_WEB_SERVER = "127.0.0.1:0"  # it cannot be switched off

app = typer.Typer(
    help="Let several machines train together: a scheduler, and a worker per rank.",
    add_completion=False,
    rich_markup_mode=None,
)
Ca = Annotated[str | None, typer.Option("--tls-ca", help="Certificate of the authority of all machines, in PEM.")]
Cert = Annotated[str | None, typer.Option("--tls-cert", help="Certificate of this machine, in PEM.")]
PrivateKey = Annotated[str | None, typer.Option("--tls-key", help="Private key of this machine, in PEM.")]


@app.command(short_help="Bring the machines together.")
def scheduler(
    host: Annotated[str, typer.Option(help="Address to listen on; needs TLS unless it is loopback.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="TCP port.", min=1, max=65535)] = 8786,
    tls_ca: Ca = None,
    tls_cert: Cert = None,
    tls_key: PrivateKey = None,
) -> None:
    """Bring workers and trainings together, until a signal comes. Needs the extra `cluster`."""
    cluster = ClusterAddress(f"{'tls' if tls_cert else 'tcp'}://{host}:{port}", tls_ca, tls_cert, tls_key)

    async def schedule() -> None:
        with tempfile.TemporaryDirectory(prefix="nearfield-scheduler-") as folder:
            server = dask().Scheduler(
                host=cluster.host,
                port=cluster.port,
                protocol=cluster.scheme,
                security=security(cluster),
                dashboard=False,
                dashboard_address=OWN_WEB_SERVER,
                local_directory=folder,
            )
            await run(server, f"scheduler {cluster.address}")

    asyncio.run(schedule())


@app.command(short_help="Lend this machine to trainings.")
def worker(
    scheduler: Annotated[str, typer.Option(help="tls://HOST:PORT of `nearfield cluster scheduler`.", metavar="URL")],
    tls_ca: Ca = None,
    tls_cert: Cert = None,
    tls_key: PrivateKey = None,
) -> None:
    """Hold one rank at a time, until a signal comes or the scheduler ends. Needs the extra `cluster`.

    On a machine with several GPUs start one worker for each; the ranks divide the GPUs among themselves.
    """
    cluster = ClusterAddress(scheduler, tls_ca, tls_cert, tls_key)

    async def work() -> None:
        with tempfile.TemporaryDirectory(prefix="nearfield-worker-") as folder:
            server = dask().Worker(
                cluster.address,
                host=toward(cluster.host),
                nthreads=1,
                memory_limit=0,  # of this process, which is small: the rank is another one
                security=security(cluster),
                dashboard_address=OWN_WEB_SERVER,
                local_directory=folder,
                death_timeout=WAIT_S,
            )
            await run(server, f"worker of {cluster.address}")

    asyncio.run(work())


async def run(server: Any, what: str) -> None:
    """Run until the server ends, or a signal comes."""
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)

    async def serve() -> None:
        try:
            await server
        except (OSError, RuntimeError) as error:  # Dask wraps some errors
            reason = str(error.__cause__ or error) or UNREACHED
            raise ClusterUnavailable(f"The {what} cannot start: {reason}") from error
        stderr.print(what, markup=False)
        await server.finished()

    waits = [asyncio.ensure_future(stopped.wait()), asyncio.ensure_future(serve())]
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
    finally:
        with contextlib.suppress(Exception):
            await server.close()
        for task in waits:
            task.cancel()


@contextlib.contextmanager
def ranks_of(n_ranks: int, cluster: ClusterAddress | None = None) -> Iterator[Ranks]:
    """The ranks of a training on a file, with a temporary folder, which is removed even after a signal.

    SIGTERM, and the end of the terminal, end the block and then this process in an orderly way.
    """

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    def report(loss: str) -> None:
        complain(loss, 0)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # nohup ignores the end of the terminal
                signal.signal(number, end)
        with tempfile.TemporaryDirectory(prefix="nearfield-") as folder:
            launcher = None if cluster is None else Cluster(cluster)
            yield Ranks(n_ranks, Path(folder) / "work", report, launcher=launcher)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
