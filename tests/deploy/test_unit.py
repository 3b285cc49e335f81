"""The unit of systemd: systemd takes it, and it agrees with the service and the page about it."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.processes.http_server import SPARE_FILES
from service.settings.settings import Settings

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "nearfield.service"
PAGE = (ROOT / "docs" / "deployment.md").read_text("utf-8")


def test_systemd_takes_it(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("missing: systemd-analyze")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace("/opt/nearfield/bin/nearfield serve", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_it_agrees_with_the_service_and_the_page() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT, "utf-8")
    service = unit["Service"]
    variables = dict(one.split("=", 1) for one in service["Environment"].split())
    names = {name.removeprefix("NEARFIELD_").lower() for name in variables}
    assert names and names <= Settings.model_fields.keys()
    # Commands of a shell find the embedded Redis by its socket below the folder of temporary files.
    assert (service.get("PrivateTmp", "no"), service.get("ReadWritePaths")) == ("no", "/tmp")
    assert variables["NEARFIELD_DATA"] == f"/var/lib/{service['StateDirectory']}"
    program, command = service["ExecStart"].split()
    assert (command, f"{program} serve" in PAGE, service["EnvironmentFile"] in PAGE) == ("serve", True, True)
    within_s = re.search(r"stops in order\]\(monitoring.md#health\), within (\d+) s", PAGE)
    assert within_s is not None and int(service["TimeoutStopSec"]) > int(within_s[1])
    assert int(service["LimitNOFILE"]) >= Settings.model_fields["max_connections"].default + SPARE_FILES
