"""Follows the stages of a Dockerfile without a container engine, then runs the image as docker-compose.yml closes it.

    unshare --mount --pid --fork --kill-child --mount-proc python -m tests.image DOCKERFILE TARGET [--linked]

Each stage is an overlay over this machine's own file system, and its commands run in it by `chroot`, as the stage's
user, with its variables. So of an engine's work everything is there but the base image: what it lacks and this machine
has is not noticed. With `--linked` commands that download or compile are left out, and the packages of the running
environment are linked into /opt/nearfield and /opt/build instead. Needs root. Prints what was found as JSON.
"""

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

WORK, LINKED = Path("/mnt"), "/opt/linked"  # of our own mount namespace
URL, KEYS = (
    "http://127.0.0.1:8000",
    {"NEARFIELD_API_KEY": "key-of-every-client", "NEARFIELD_ADMIN_KEY": "key-of-the-admins"},
)
SLOW = ("apt-get", "rm -rf /var/lib/apt", "--require-hashes", "service.cli.warm")  # what `--linked` leaves out
NO_RIGHTS = ("--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all")
CLONE_NEWNS, CLONE_NEWNET, SIOCSIFFLAGS, IFF_UP = 0x20000, 0x40000000, 0x8914, 1
READY_S, STOP_S = 180, 30
WRITABLE, CLOSED = ("/data/x", "/tmp/x"), ("/x", "/etc/x", "/opt/nearfield/x", "/var/cache/nearfield/x")


class Stage(NamedTuple):
    """`FROM base AS name` and what follows."""

    base: str
    name: str
    steps: list[tuple[str, str]]


@dataclass(frozen=True)
class Image:
    """What an engine knows of an image: its layers, the newest first, and what its processes start with."""

    layers: tuple[Path, ...] = ()
    variables: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"})
    user: str = "0"
    folder: str = "/"
    command: tuple[str, ...] = ()
    check: tuple[str, ...] = ()


def stages_of(text: str) -> dict[str, Stage]:
    """The stages of a Dockerfile by name."""
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    found: dict[str, Stage] = {}
    for word, rest in (line.split(maxsplit=1) for line in lines if line.strip()):
        if word == "FROM":
            base, _, name = rest.split()
            found[name] = Stage(base, name, [])
        elif found:
            list(found.values())[-1].steps.append((word, rest.strip()))
    return found


class Builder:
    """Builds targets of one Dockerfile, each stage once."""

    def __init__(self, context: Path, text: str, is_linked: bool) -> None:
        self._context, self._stages, self._is_linked = context, stages_of(text), is_linked
        self._built: dict[str, Image] = {}

    def build(self, name: str) -> Image:
        """The image of a stage, or of this machine where no stage is called that."""
        if name not in self._built:
            stage = self._stages.get(name)
            self._built[name] = self._follow(stage) if stage else self._machine()
        return self._built[name]

    def _machine(self) -> Image:
        """This machine, with places for what `mounted` lays over it; the linker knows the running Python."""
        image = Image((layer("machine"),))
        if self._is_linked:
            (image.layers[0] / LINKED[1:]).mkdir(parents=True)
        if not is_elsewhere(Path(sys.base_prefix)):
            (image.layers[0] / "usr/local/bin").mkdir(parents=True)
            (image.layers[0] / "usr/local/bin/python").symlink_to(f"{sys.base_prefix}/bin/python3")
        enter(image, "ldconfig")
        return image

    def _follow(self, stage: Stage) -> Image:
        parent = self.build(stage.base)
        image = replace(parent, layers=(layer(stage.name), *parent.layers))
        for word, rest in stage.steps:
            image = self._step(image, word, rest)
        return image

    def _step(self, image: Image, word: str, rest: str) -> Image:
        if word == "RUN":
            self._run(image, rest)
        elif word == "COPY":
            self._copy(image, rest.split())
        elif word == "ENV":
            given = dict(pair.split("=", 1) for pair in rest.split())
            return replace(image, variables=image.variables | {n: expanded(v, image) for n, v in given.items()})
        elif word == "USER":
            return replace(image, user=rest)
        elif word == "WORKDIR":
            enter(image, f"mkdir -p {rest}")
            return replace(image, folder=rest)
        elif word == "CMD":
            return replace(image, command=tuple(json.loads(rest)))
        elif word == "HEALTHCHECK":
            return replace(image, check=tuple(json.loads(rest[rest.index("CMD") + 3 :])))
        else:
            assert word in ("EXPOSE", "VOLUME", "STOPSIGNAL"), word
        return image

    def _run(self, image: Image, command: str) -> None:
        parts = [part.strip() for part in command.split("&&")]
        kept = [part for part in parts if not self._is_linked or not any(slow in part for slow in SLOW)]
        if kept:
            enter(image, " && ".join(kept))
        if self._is_linked and any("--require-hashes" in part for part in parts):
            link(image)

    def _copy(self, image: Image, words: list[str]) -> None:
        *sources, target = words
        if sources[0].startswith("--from="):
            origin = self.build(sources.pop(0).removeprefix("--from="))
            with mounted(origin, writable=False) as root:
                copy(root / sources[0][1:], image.layers[0] / target[1:])
            return
        for source in sources:
            folder = image.layers[0] / image.folder[1:] / target
            copy(self._context / source, folder / source if target.endswith("/") else folder)


def copy(source: Path, target: Path) -> None:
    """As COPY does: a folder's content, or a file; without what .dockerignore leaves out everywhere."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc") if source.is_relative_to(Path.cwd()) else None
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=ignored)
    else:
        shutil.copy(source, target)


def link(image: Image) -> None:
    """Every package of the running environment but ours and pip, which venv has installed, into both environments."""
    packages = Path(sysconfig.get_path("purelib"))
    names = [one.name for one in packages.iterdir() if not re.match(r"_?nearfield|pip|__pycache__|.*\.pth$", one.name)]
    for environment in ("nearfield", "build"):
        site = image.layers[0] / f"opt/{environment}/lib/python3.{sys.version_info.minor}/site-packages"
        for name in names:
            if not (site / name).exists():
                (site / name).symlink_to(f"{LINKED}/{name}")


def expanded(value: str, image: Image) -> str:
    return re.sub(r"\$(\w+)", lambda name: image.variables.get(name[1], ""), value)


def layer(name: str) -> Path:
    path = WORK / "layers" / name
    path.mkdir(parents=True)
    return path


@contextlib.contextmanager
def mounted(image: Image, writable: bool) -> Iterator[Path]:
    """The file system of an image; what is written goes to its newest layer, if it may be written at all."""
    root, spare = WORK / "root", WORK / "spare"
    lower = [*image.layers[1 if writable else 0 :], Path("/")]
    options = "lowerdir=" + ":".join(map(str, lower))
    for folder in (root, spare):
        folder.mkdir(exist_ok=True)
    if writable:
        options += f",upperdir={image.layers[0]},workdir={spare}"
    mount("-t", "overlay", "overlay", "-o", options, str(root))
    # Never writable: these are folders of the machine itself, and no layer would catch what a command writes there.
    if is_elsewhere(Path(sys.base_prefix)):
        mount("-o", "bind,ro", sys.base_prefix, str(root / "usr/local"))
    if (root / LINKED[1:]).exists():
        mount("-o", "bind,ro", str(Path(sysconfig.get_path("purelib"))), str(root / LINKED[1:]))
    mount("-t", "proc", "proc", str(root / "proc"))
    mount("--bind", "/dev", str(root / "dev"))
    try:
        yield root
    finally:
        subprocess.run(["umount", "--recursive", str(root)], check=True)


def is_elsewhere(python: Path) -> bool:
    """Whether it has to be bound to /usr/local, where images of Python have it."""
    return python not in (Path("/usr"), Path("/usr/local"))


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def arguments(image: Image, root: Path, *command: str, rights: bool = True) -> list[str]:
    """The command line that runs a command in a mounted image as its user."""
    user = ["setpriv", f"--reuid={image.user}", f"--regid={group_of(image, root)}"] if image.user != "0" else []
    if not rights:
        user += NO_RIGHTS
    elif user:
        user += ["--clear-groups"]
    return ["chroot", str(root), "env", f"--chdir={image.folder}", *user, *command]


def group_of(image: Image, root: Path) -> str:
    lines = [line.split(":") for line in (root / "etc/passwd").read_text("utf-8").splitlines()]
    return next(group for _, _, user, group, *_ in lines if user == image.user)


def outcome(command: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def enter(image: Image, command: str) -> None:
    """RUN: fails where the command fails."""
    ours = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "http", "no_proxy"))}
    with mounted(image, writable=True) as root:
        done = outcome(arguments(image, root, "sh", "-c", command), ours | image.variables)
    assert done.returncode == 0, f"RUN {command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


# --- using it


def use(image: Image) -> dict[str, Any]:
    """Start the image with a read-only root, without rights and alone on its network; rate, ask, and stop it."""
    with mounted(image, writable=False) as root:
        state = root / "data"
        volume = WORK / "volume"
        shutil.copytree(state, volume)
        shutil.copystat(state, volume)
        os.chown(volume, state.stat().st_uid, state.stat().st_gid)
        mount("--bind", str(volume), str(state))
        mount("-t", "tmpfs", "-o", "size=64m,mode=1777", "tmpfs", str(root / "tmp"))
        alone()
        variables = image.variables | KEYS | {"HOME": "/data"}
        refused = outcome(arguments(image, root, *image.command, rights=False), image.variables)
        with subprocess.Popen(arguments(image, root, *image.command, rights=False), env=variables) as service:
            try:
                found = {"without_keys": refused.returncode, **probed(image, root, service, variables)}
            finally:
                service.terminate()
                stopped = service.wait(STOP_S)
        return {**found, "stopped": stopped}


def leave(namespace: int) -> None:
    assert ctypes.CDLL(None, use_errno=True).unshare(namespace) == 0, os.strerror(ctypes.get_errno())


def alone() -> None:
    """A network of its own for this process and those it starts, with loopback."""
    leave(CLONE_NEWNET)
    with socket.socket() as handle:
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def probed(image: Image, root: Path, service: subprocess.Popen[bytes], variables: dict[str, str]) -> dict[str, Any]:
    check = arguments(image, root, *image.check, rights=False)
    deadline = time.monotonic() + READY_S
    while outcome(check, variables).returncode:
        assert service.poll() is None, "the service has ended"
        assert time.monotonic() < deadline, "the service is not healthy"
        time.sleep(0.2)
    rated = [{"user": f"u{n % 3}", "item": f"i{n}", "rating": 4} for n in range(9)]
    receipt = answer("/ratings", rated)
    files = [file for file in (*WRITABLE, *CLOSED) if is_writable(image, root, file, variables)]
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{service.pid}/status").read_text().splitlines())
    return {
        "accepted": receipt["accepted"],
        "listed": len(answer(f"/recommend/u0?wait_for={receipt['stream_id']}")["items"]),
        "writable": files,
        "compiled": len(list((root / "data/.cache").rglob("*.nbi"))),
        "uid": int(status["Uid"].split()[0]),
        "rights": int(status["CapEff"], 16) | int(status["CapBnd"], 16),
        "may_gain_rights": status["NoNewPrivs"] == "0",
    }


def is_writable(image: Image, root: Path, path: str, variables: dict[str, str]) -> bool:
    command = arguments(image, root, "touch", path, rights=False)
    return outcome(command, variables).returncode == 0


def answer(path: str, body: object = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"X-API-Key": KEYS["NEARFIELD_API_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request(URL + path, data, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        found: dict[str, Any] = json.load(response)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dockerfile", type=Path)
    parser.add_argument("target")
    parser.add_argument("--linked", action="store_true")
    options = parser.parse_args()
    os.umask(0o022)  # an engine's, so that the image's user may read what a layer creates
    leave(CLONE_NEWNS)  # no mount below is seen by any other process, or outlives this one
    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "-o", "size=4g", "tmpfs", str(WORK))
    builder = Builder(options.dockerfile.parent, options.dockerfile.read_text("utf-8"), options.linked)
    print(json.dumps(use(builder.build(options.target))))


if __name__ == "__main__":
    main()
