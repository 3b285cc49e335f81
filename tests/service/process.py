"""A service as a real process on a loopback port, for tests from end to end."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

import httpx
import psutil
import redis

from service.cli import client as clients
from service.cli.client import Client
from service.cli.service_process import START_TIMEOUT_S, NotStarted, ServiceProcess
from service.storage.events import StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.streams.redis_server import RedisServer
from tests.service import fork_server
from tests.service.keys import COMMIT, RATINGS
from tests.service.trained import train
from tests.service.waiting import LONGEST_S, eventually, learned

clients.POLL_S = LONGEST_S  # each look at a job takes four milliseconds of a core
CLIENT_TIMEOUT_S = 200.0  # an export gets what others leave of a core
GONE_S = 40.0  # seconds; a service ends by force after 20


def descendants(word: str, parent: psutil.Process | None = None) -> list[psutil.Process]:
    """The processes below `parent`, by default below this process, with `word` among the words of their commands."""
    found = []
    for process in (parent or psutil.Process()).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            if word in process.cmdline():
                found.append(process)
    return found


class ForkedService(ServiceProcess):
    """A service that the server of forks starts."""

    def __init__(
        self, data: Path, environment: dict[str, str], log: IO[bytes], extras: Sequence[str] | None = None
    ) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (as there)
        arguments = ["serve", "--port", "0", "--data", str(data)]
        forked = fork_server.server().start(arguments, environment, self._output, log, extras)
        self.child = cast("subprocess.Popen[bytes]", forked)


def started(data: Path, settings: dict[str, str], log: IO[bytes]) -> ServiceProcess:
    """`nearfield serve`, forked if its surroundings are those of the server of forks."""
    environment = os.environ | settings
    if fork_server.surroundings(environment) == fork_server.server().surroundings:
        return ForkedService(data, environment, log)
    return ServiceProcess(data, environment=settings, log=log)


class Service:
    """`nearfield serve` on a free port over a folder that outlives it."""

    def __init__(self, data: Path, **settings: object) -> None:
        self.data = data
        self._environment: dict[str, str] = {}
        self.set(**settings)
        self.start()

    def set(self, **settings: object) -> None:
        """Change settings for the next start."""
        self._environment |= {f"NEARFIELD_{name.upper()}": str(value) for name, value in settings.items()}

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        self.errors = self.data.with_suffix(".stderr")
        with self.errors.open("ab") as errors:
            self._process = started(self.data, self._environment, errors)
        try:
            self.api = Client(self._process.address(timeout_s=timeout_s))
        except NotStarted as error:
            self.crash()
            raise AssertionError(f"{error}: {self.errors.read_text()[-4000:]}") from None
        self.client = self.api.http

    @property
    def process(self) -> subprocess.Popen[bytes]:
        return self._process.child

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal the parent and return its exit status."""
        self.client.close()
        return self._process.stop(number)

    def crash(self) -> None:
        """End its processes at once, as a container ends; trainers and the embedded server are left to themselves."""
        if hasattr(self, "client"):  # else it fails before it was ever ready
            self.client.close()
        ended = self.processes()
        for process in ended:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.stop(signal.SIGKILL)
        psutil.wait_procs(ended, GONE_S)

    def kill(self) -> None:
        """End all that it has started, whatever state it is in, and the embedded server.

        What it has logged last is printed, which pytest shows if the test fails.
        """
        sys.stdout.write(self.errors.read_text("utf-8", "replace")[-4000:])
        family = self.family()
        self.crash()
        with contextlib.suppress(redis.ConnectionError), redis.Redis.from_url(RedisServer(self.data).url) as server:
            server.shutdown(nosave=True)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, GONE_S)

    def processes(self) -> list[psutil.Process]:
        """The parent, and those that it has started."""
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self.process.pid)
            return [parent, *parent.children()]
        return []

    def pid(self, name: str) -> int:
        """The process `engine` or `front-1`, as soon as it is there."""

        def found() -> int | None:
            with contextlib.suppress(psutil.NoSuchProcess):
                return next((one.pid for one in self.processes() if one.name() == f"nf-{name}"), None)
            return None

        return eventually(found, 60)

    def signal(self, name: str, number: int) -> int:
        """Signal a process; returns its pid."""
        process = psutil.Process(self.pid(name))
        process.send_signal(number)
        return process.pid

    def family(self) -> list[psutil.Process]:
        """The parent, all processes below it, such as trainers, and Redis, which may have been adopted."""
        found = set[psutil.Process]()
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self.process.pid)
            found |= {parent, *parent.children(recursive=True)}
        with contextlib.suppress(redis.RedisError, psutil.NoSuchProcess):
            found.add(psutil.Process(RedisServer(self.data).pid))
        return list(found)

    def get(self, path: str, **parameters: Any) -> httpx.Response:
        """As `client.get`, but patient about `wait_for`."""
        return learned(lambda: self.client.get(path, params=parameters or None))  # {} drops the query in `path`

    def rate(self, *triples: tuple[str, str, float]) -> str:
        """Post ratings and return their stream id."""
        answer = self.api.rate([{"user": u, "item": i, "rating": r} for u, i, r in triples])
        assert answer["accepted"] == len(triples)
        return answer["stream_id"]

    def retrain(self, algorithm: str, **params: object) -> dict[str, Any]:
        """The job of a training that has ended, well or not."""
        return self.api.ended_job(self.api.start_training(algorithm, params)["id"])

    def train(self, algorithm: str, **params: object) -> str:
        """Train in this process, which is faster than a job, and return the version, which answers."""
        url = self._environment.get("NEARFIELD_REDIS", RedisServer(self.data).url)
        with redis.Redis.from_url(url, decode_responses=True) as client:
            watermark = StreamId.parse(client.xinfo_stream(RATINGS)["last-generated-id"])
            client.set(COMMIT, str(watermark))
        log = RatingLog(self.data / "ratings")
        eventually(lambda: log.last_id() >= watermark)
        version = train(self.data, algorithm, params, watermark).version
        answer = self.client.post(f"/admin/models/{version}/activate")
        assert answer.status_code == 202, answer.text
        eventually(lambda: version in [one["version"] for one in self.models() if one["live"]])
        return str(version)

    def models(self) -> list[dict[str, Any]]:
        """What the service tells of its models."""
        found: list[dict[str, Any]] = self.client.get("/admin/models").json()["models"]
        return found

    def settle(self, last: str) -> None:
        """Return once it has learned the entry `last`, refitted what is to be, and answers with the newest revisions.

        Before that, two services that have learned the same may give other scores.
        """

        def is_settled() -> bool:
            models = self.get("/admin/stats").json()["models"]  # a page of metrics may be a second old
            kept = {model["version"]: model["revision"] for model in self.models()}
            # A forgotten user leaves a model to be loaded again, without the ratings that its items still count.
            are_newest = all(model["revision"] == kept.get(model["model_version"]) for model in models)
            return are_newest and all(model["refits_waiting"] == 0 for model in models)

        eventually(lambda: self.get("/popular", wait_for=last).status_code == 200, 60)
        eventually(is_settled, 60)

    def reconnect(self) -> None:
        """Replace the client, whose connection may have been lost with a process."""
        self.client.close()
        self.api = Client(str(self.client.base_url))
        self.client = self.api.http

    def is_ready(self) -> bool:
        """Whether a new connection is answered that the service is ready."""
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.client.base_url}/health/ready", timeout=CLIENT_TIMEOUT_S).status_code == 200
        return False
