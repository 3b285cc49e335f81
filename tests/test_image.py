"""The image for CPUs, built and run as `tests.image` does it without a container engine."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.image import CLOSED, WRITABLE

ROOT = Path(__file__).parents[1]
APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
TOOLS = ("unshare", "setpriv", "chroot", "mount", "umount", "ldconfig", "useradd")
OVERLAY = "mount -t tmpfs t /mnt && cd /mnt && mkdir u w m && mount -t overlay o -o lowerdir=/,upperdir=u,workdir=w m"


@pytest.fixture(scope="module", autouse=True)
def possible() -> None:
    """Skip where the machine cannot do it, and say what it lacks."""
    if os.getuid() != 0:
        pytest.skip("only root can mount and change users")
    if missing := [tool for tool in TOOLS if shutil.which(tool, path="/usr/sbin:/sbin:/usr/bin:/bin") is None]:
        pytest.skip(f"missing: {', '.join(missing)}")
    done = subprocess.run([*APART, "sh", "-c", OVERLAY], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no overlay can be mounted here: {done.stderr.strip()}")


def walked(*options: str) -> dict[str, Any]:
    """Follow the Dockerfile, use the image, and return what `tests.image` found."""
    command = [*APART, sys.executable, "-m", "tests.image", "Dockerfile", "cpu", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(found: dict[str, Any]) -> None:
    assert (found["accepted"], found["listed"] > 0) == (9, True)
    assert found["writable"] == list(WRITABLE)
    assert not set(found["writable"]) & set(CLOSED)
    assert (found["uid"], found["rights"], found["may_gain_rights"]) == (10001, 0, False)
    assert found["without_keys"] == 2  # it listens on every address
    assert found["stopped"] == 0


@pytest.mark.slow
def test_the_image_serves_on_a_read_only_root_without_rights() -> None:
    """With the packages of this environment, not downloaded ones, and without the kernels compiled into the image."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("missing: hatchling, which builds the wheel (make install)")
    found = walked("--linked")
    check(found)
    assert found["compiled"] > 0  # into /data/.cache, as on another kind of processor


@pytest.mark.slow
def test_every_command_of_the_dockerfile_works() -> None:
    """With what the commands download and compile: `make image`."""
    if "IMAGE_DOWNLOADS" not in os.environ:
        pytest.skip("downloads for two minutes; make image")
    found = walked()
    check(found)
    assert found["compiled"] == 0  # kernels of the image are read, though its root cannot be written
