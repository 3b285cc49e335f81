"""A server in this process with the routes of MLflow that we use. It answers as MLflow 3.17 was seen to."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts/"
API = "/api/2.0/mlflow/"


class MLflowServer(ThreadingHTTPServer):
    """Keeps runs, versions of models, aliases and artifacts.

    Attributes:
        token: what every request must bear; None: nothing.
        root: where the artifacts of runs are.
        broken: name of a file that the server fails to take.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.token: str | None = None
        self.root, self.broken = "mlflow-artifacts:", ""
        self.experiments: list[str] = []
        self.runs: list[str] = []  # their states
        self.models: dict[str, list[dict[str, Any]]] = {}
        self.aliases: dict[tuple[str, str], str] = {}
        self.artifacts: dict[str, bytes] = {}
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handled(self, route: str, asked: dict[str, Any]) -> dict[str, Any] | str:
        """The answer, or the code of an error."""
        name = asked.get("name", "")
        match route:
            case "experiments/get-by-name":
                known = asked["experiment_name"] in self.experiments
                return {"experiment": {"experiment_id": "0"}} if known else "RESOURCE_DOES_NOT_EXIST"
            case "experiments/create":
                self.experiments.append(name)
                return {"experiment_id": "0"}
            case "runs/create":
                self.runs.append("RUNNING")
                n = len(self.runs) - 1
                return {"run": {"info": {"run_id": str(n), "artifact_uri": f"{self.root}/0/{n}/artifacts"}}}
            case "runs/update":
                self.runs[int(asked["run_id"])] = asked["status"]
                return {}
            case "registered-models/create":
                if name in self.models:
                    return "RESOURCE_ALREADY_EXISTS"
                self.models[name] = []
                return {}
            case "registered-models/alias":
                return self._alias(name, asked["alias"], asked.get("version"))
            case "model-versions/create":
                assert asked["source"].startswith(f"{self.root}/0/{asked['run_id']}/artifacts/")  # else it is refused
                number = str(len(self.models[name]) + 1)
                self.models[name].append({"version": number, "source": asked["source"], "tags": asked["tags"]})
                return {"model_version": self.models[name][-1]}
            case "model-versions/search":
                found = re.fullmatch(r"name='(.+)' and tags\.`(.+)`='(.+)'", asked["filter"])
                assert found is not None
                tag = {"key": found[2], "value": found[3]}
                return {"model_versions": [one for one in self.models.get(found[1], []) if tag in one["tags"]]}
            case "model-versions/get-download-uri":
                versions = {one["version"]: one for one in self.models.get(name, [])}
                one = versions.get(asked["version"])
                return "RESOURCE_DOES_NOT_EXIST" if one is None else {"artifact_uri": one["source"]}
        return "ENDPOINT_NOT_FOUND"

    def _alias(self, name: str, alias: str, version: str | None) -> dict[str, Any] | str:
        if version is not None:
            self.aliases[name, alias] = version
            return {}
        found = self.aliases.get((name, alias))
        return "INVALID_PARAMETER_VALUE" if found is None else {"model_version": {"version": found}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: MLflowServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        parts, server = urlsplit(self.path), self.server
        path = unquote(parts.path)
        if server.token and self.headers.get("authorization") != f"Bearer {server.token}":
            self._answer(401, b"who are you?")
        elif path.startswith(ARTIFACTS) and self.command == "PUT":
            is_broken = bool(server.broken) and path.endswith(server.broken)
            if not is_broken:
                server.artifacts[path.removeprefix(ARTIFACTS)] = content
            self._answer(500 if is_broken else 200, b"")
        elif path.startswith(ARTIFACTS):
            found = server.artifacts.get(path.removeprefix(ARTIFACTS))
            self._answer(404 if found is None else 200, found or b"{}")
        elif not path.startswith(API):
            self._answer(200, b"<html>another server</html>")
        else:
            asked = json.loads(content) if self.command == "POST" else dict(parse_qsl(parts.query))
            answer = server.handled(path.removeprefix(API), asked)
            problem = {"error_code": answer, "message": "no"} if isinstance(answer, str) else answer
            self._answer(400 if isinstance(answer, str) else 200, json.dumps(problem).encode())

    def do_PUT(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.do_GET()

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
