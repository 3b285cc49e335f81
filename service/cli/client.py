"""`Client`: sends requests to one service. The import, the demo, the measurements and the tests use it."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple, TypedDict
from urllib.parse import quote
from urllib.request import getproxies, proxy_bypass

import httpx

from service.base.errors import ServiceError
from service.settings.addresses import is_loopback
from service.settings.data_sets import check_name, path_of
from service.settings.errors import InvalidSetting

TIMEOUT_S = 60.0  # seconds to connect, and seconds to get an answer
EXPORT_TIMEOUT_S = 600.0  # seconds without a byte; a large log is read first
POLL_S = 0.05  # seconds between two looks at a job, or at a service that is not ready
ENDS = ("succeeded", "failed", "cancelled")  # states of a job that has ended

Job = dict[str, Any]


class RatingBody(TypedDict, total=False):
    """One element of the body of POST /ratings; `timestamp`, in Unix seconds, is optional."""

    user: str
    item: str
    rating: float
    timestamp: float


class RequestFailed(ServiceError):
    """The service refused a request, or did not answer it.

    Attributes:
        problem: the reason in one line; it begins with the status, if there is one.
        code: HTTP status; None without an answer.
        document: the problem document; empty if there is none.
        retry_after_s: seconds to wait before another attempt, from Retry-After; None without that header.
    """

    def __init__(self, message: str, problem: str, response: httpx.Response | None = None) -> None:
        super().__init__(message)
        self.problem = problem
        self.code = None if response is None else response.status_code
        self.document = {} if response is None else object_in(response) or {}
        wait = "" if response is None else response.headers.get("Retry-After", "")
        self.retry_after_s = int(wait) if wait.isdecimal() else None


class JobFailed(ServiceError):
    """A job has failed or was cancelled; the message gives the reason."""


class Client:
    """A client of one service; as a context manager it closes its connections at the end.

    Every method raises `RequestFailed` if the service does not answer, or answers with an error.

    Attributes:
        http: the connections, for requests that have no method here.
        proxy: of the environment, through which they go; None: they go direct, as always to this machine.
    """

    def __init__(self, url: str, key: str | None = None, data_set: str | None = None) -> None:
        """Make a client; the first request opens a connection.

        Args:
            url: address of the service.
            key: is sent with every request.
            data_set: name of a further data set of the service, to which all requests go; None: the default one.

        Raises:
            InvalidSetting: not the name of a data set; or not a URL, whose message does not repeat it, because it may
                have a password; or a proxy of the environment that this installation cannot use.
        """
        headers = {} if key is None else {"X-API-Key": key}
        try:
            address = httpx.URL(url if data_set is None else url.rstrip("/") + path_of(check_name(data_set)))
        except httpx.InvalidURL:
            raise InvalidSetting("Invalid url: expected http://HOST:PORT or https://HOST:PORT") from None
        self.proxy = proxy_of(address)
        try:
            self.http = httpx.Client(
                base_url=address,
                headers=headers,
                timeout=TIMEOUT_S,
                proxy=self.proxy and self.proxy.url,
                verify=httpx.create_ssl_context(),  # by SSL_CERT_FILE, which `trust_env` would else read too
                trust_env=False,
            )
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            if self.proxy is None:
                raise
            expected = f"the URL of a proxy, got {self.proxy}"
            if isinstance(error, ImportError):
                expected = (
                    f"a proxy that this installation can use, got {self.proxy}, which needs the package socksio:"
                    f" pip install 'httpx[socks]', or name {address.host} in NO_PROXY"
                )
            raise InvalidSetting(f"Invalid {self.proxy.variable}: expected {expected}") from None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.http.close()

    @property
    def address(self) -> str:
        """The address of the service, without a password."""
        return f"{self.http.base_url.scheme}://{self.http.base_url.netloc.decode()}"

    @property
    def way(self) -> str:
        """The proxy to the service in words, for errors; empty without one."""
        return "" if self.proxy is None else f" through {self.proxy}"

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """The JSON object at `path`; parameters that are None are left out."""
        return self.request("GET", path, params={name: value for name, value in query.items() if value is not None})

    def post(self, path: str, document: object) -> dict[str, Any]:
        """The JSON object that the service answers to `document`."""
        return self.request("POST", path, json=document)

    # --- health

    def check_live(self) -> None:
        """Return if the process runs."""
        self.get("/health/live")

    def check_ready(self) -> None:
        """Return if the service is ready; otherwise the error has the reason and the `fraction` that is done."""
        self.get("/health/ready")

    def wait_until_ready(self, timeout_s: float) -> None:
        """Return once the service is ready; raise its last answer after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.check_ready()
            except RequestFailed:
                if time.monotonic() > deadline:
                    raise
            time.sleep(POLL_S)

    # --- ratings

    def rate(self, ratings: RatingBody | Sequence[RatingBody]) -> dict[str, Any]:
        """Post one rating or a batch in one request; the answer has `accepted`, `rejected` and `stream_id`.

        A bad rating alone is refused. Bad ratings of a batch are in `rejected`, and the others count.
        """
        return self.post("/ratings", ratings)

    def send_events(self, events: dict[str, Any] | Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Post one event or a batch in one request; the answer is like that of `rate`."""
        return self.post("/events", events)

    def put_items(self, items: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Put items with their attributes, as POST /items describes them; the answer is like that of `rate`."""
        return self.post("/items", items)

    def patch_items(self, items: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Change the attributes that `items` name, and leave the others; the answer is like that of `rate`."""
        return self.request("PATCH", "/items", json=items)

    def post_lines(self, path: str, lines: bytes, source: str, offset: int) -> dict[str, Any]:
        """Post a batch of elements, one in each line, that comes from a queue; see X-Source in the API."""
        headers = {"Content-Type": "application/x-ndjson", "X-Source": source, "X-Offset": str(offset)}
        return self.request("POST", path, content=lines, headers=headers)

    def wait_for(self, stream_id: str) -> None:
        """Return once answers reflect the ratings up to `stream_id`."""
        while True:
            try:
                self.get("/popular", n=1, wait_for=stream_id)
            except RequestFailed as error:
                if error.code != httpx.codes.SERVICE_UNAVAILABLE:
                    raise
                time.sleep(POLL_S)
            else:
                return

    # --- answers of models

    def recommend(self, user: str, **query: object) -> dict[str, Any]:
        """The list of a user; `query` has the parameters of GET /recommend/{user}."""
        return self.get(f"/recommend/{segment(user)}", **query)

    def neighbors(self, item: str, **query: object) -> dict[str, Any]:
        """The neighbors of an item; `query` has the parameters of GET /items/{item}/neighbors."""
        return self.get(f"/items/{segment(item)}/neighbors", **query)

    def estimate(self, user: str, item: str, **query: object) -> dict[str, Any]:
        """The estimated rating of an item by a user; `query` has the parameters of GET /estimate/{user}/{item}."""
        return self.get(f"/estimate/{segment(user)}/{segment(item)}", **query)

    # --- files

    def download(
        self,
        path: str,
        write: Callable[[bytes], object],
        on_bytes: Callable[[int], None] = lambda _: None,
        **query: object,
    ) -> httpx.Headers:
        """Pass the bytes of a file or an export to `write`; return the headers, which may name its last stream id.

        Args:
            path: of the route, such as /admin/export.
            write: called with each piece.
            on_bytes: called with the length of each piece after it is written.
            query: the parameters of the route.
        """
        timeout = httpx.Timeout(TIMEOUT_S, read=EXPORT_TIMEOUT_S)
        try:
            with self.http.stream("GET", path, params=dict(query), timeout=timeout) as response:  # type: ignore[arg-type]
                if not response.is_success:
                    response.read()
                    problem = problem_of(response)
                    raise RequestFailed(f"GET {path}: {problem}", problem, response)
                for piece in response.iter_raw():
                    write(piece)
                    on_bytes(len(piece))
                return response.headers
        except httpx.RequestError as error:
            problem = f"{type(error).__name__}: {error}"
            raise RequestFailed(f"GET {path} of {self.address}{self.way} broke off: {problem}", problem) from None

    # --- trainings

    def retrain(
        self,
        algorithm: str,
        params: dict[str, Any] | None = None,
        *,
        force: bool = False,
        on_poll: Callable[[Job], None] = lambda _job: None,
    ) -> Job:
        """Train a model, wait for the end, and return the job.

        Args:
            algorithm: name of the algorithm.
            params: its parameters; default: those of the algorithm.
            force: make the model live even if it is worse than the present one.
            on_poll: called with each state of the job that is read.

        Raises:
            JobFailed: the training ended without a model.
        """
        return self.succeeded_job(self.start_training(algorithm, params, force=force)["id"], on_poll)

    def start_training(self, algorithm: str, params: dict[str, Any] | None = None, *, force: bool = False) -> Job:
        """Queue a training and return its job; arguments as for `retrain`."""
        return self.post("/admin/retrain", {"algorithm": algorithm, "params": params or {}, "force": force})

    def job(self, job_id: str) -> Job:
        """The present state of a job."""
        return self.get(f"/admin/jobs/{segment(job_id)}")

    def ended_job(self, job_id: str, on_poll: Callable[[Job], None] = lambda _job: None) -> Job:
        """The job once it has ended, well or not; `on_poll` is called with each state that is read."""
        while True:
            job = self.job(job_id)
            on_poll(job)
            if job["state"] in ENDS:
                return job
            time.sleep(POLL_S)

    def succeeded_job(self, job_id: str, on_poll: Callable[[Job], None] = lambda _job: None) -> Job:
        """`ended_job` of a job that must succeed; raises `JobFailed` if it does not."""
        job = self.ended_job(job_id, on_poll)
        if job["state"] != "succeeded":
            raise JobFailed(f"the job {job_id} ({job['kind']}) {job['state']}: {job.get('error')}")
        return job

    def request(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        """The JSON object that the service answers; `content` is that of `httpx.Client.request`."""
        try:
            response = self.http.request(method, path, **content)
        except httpx.RequestError as error:
            problem = f"{type(error).__name__}: {error}"
            raise RequestFailed(f"no service answers at {self.address}{self.way}: {error}", problem) from None
        document = object_in(response)
        if not response.is_success or document is None:
            problem = problem_of(response) + (self.way if document is None else "")
            raise RequestFailed(f"{method} {response.request.url.path}: {problem}", problem, response)
        return document


def segment(name: str) -> str:
    """An id as one segment of a path. Clients resolve the segments `.` and `..`, but not encoded ones."""
    return quote(name, safe="").replace(".", "%2E")


def object_in(response: httpx.Response) -> dict[str, Any] | None:
    """The body if it is a JSON object, else None."""
    try:
        document = response.json()
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def problem_of(response: httpx.Response) -> str:
    """The status, and a problem document as one line."""
    document = object_in(response)
    text = response.text[:200] if document is None else f"{document.get('title')}: {document.get('detail')}"
    return f"{response.status_code} {text}"


class Proxy(NamedTuple):
    """A proxy: the variable that names it, and its URL, which may have a password."""

    variable: str
    url: str

    def __str__(self) -> str:
        """In words, without a password."""
        scheme, _, place = self.url.partition("://")
        return f"the proxy {scheme}://{place.rpartition('@')[2]} of {self.variable}"


def proxy_of(address: httpx.URL) -> Proxy | None:
    """The proxy for requests to `address`, from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY in either case.

    None for this machine, whose loopback addresses no proxy can reach, and where no variable names one.
    """
    if not address.host or is_this_machine(address.host) or proxy_bypass(address.host):
        return None
    proxies = getproxies()
    for scheme in (address.scheme, "all"):
        if url := proxies.get(scheme):
            return Proxy(f"{scheme.upper()}_PROXY", url if "://" in url else f"http://{url}")
    return None


def is_this_machine(host: str) -> bool:
    """Whether `host` is a name or an address of loopback, also 127.1, ::ffff:127.0.0.1, 0.0.0.0 and a.localhost."""
    try:
        address = ip_address(host)
    except ValueError:
        try:
            address = ip_address(socket.inet_aton(host))
        except OSError:
            name = host.rstrip(".")
            return is_loopback(name) or name.endswith(".localhost")
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified
