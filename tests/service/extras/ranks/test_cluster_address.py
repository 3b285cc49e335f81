"""Addresses of clusters: other machines are reached by TLS only."""

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from service.extras.ranks.cluster_address import ClusterAddress
from service.processes import process
from service.settings.errors import InvalidSetting
from service.settings.settings import Settings

FILES = "ca.pem", "cert.pem", "key.pem"


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "tcp://localhost:1", "tcp://[::1]:8786"])
def test_loopback_needs_no_tls(address: str) -> None:
    assert ClusterAddress(address).scheme == "tcp"


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "tcp://0.0.0.0:8786", "tcp://gpu7:8786"])
def test_other_machines_need_tls(address: str) -> None:
    with pytest.raises(InvalidSetting, match=r"expected tls:// for a host that other machines reach, .* execute code"):
        ClusterAddress(address, *FILES)


@pytest.mark.parametrize("files", [(), FILES[:1], FILES[:2], (None, *FILES[1:]), (FILES[0], None, FILES[2])])
def test_tls_needs_three_files(files: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSetting, match=r"expected three files for tls://gpu7:8786, .* --tls-ca, --tls-cert and"):
        ClusterAddress("tls://gpu7:8786", *files)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority and a key of its own, a second key, and the first one under a password."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed, which makes certificates")
    folder = tmp_path_factory.mktemp("certificates")
    for command in (
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=a -keyout key.pem -out ca.pem",
        "ecparam -name prime256v1 -genkey -noout -out other.pem",
        "ec -in key.pem -aes128 -passout pass:secret -out locked.pem",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    (folder / "none.pem").write_text("no certificate")
    return folder


@pytest.mark.parametrize(
    ("ca", "cert", "key", "message"),
    [
        ("none", "ca", "key", r"expected the certificate of an authority, in PEM, in \S+none\.pem, got \["),
        ("missing", "ca", "key", r"in PEM, in \S+missing\.pem, got \[Errno 2\]"),
        ("ca", "none", "key", r"expected a certificate in \S+none\.pem and its private key, without a password, in"),
        ("ca", "ca", "missing", r"in \S+missing\.pem, both in PEM, got \[Errno 2\]"),
        ("ca", "ca", "other", r"in \S+other\.pem, both in PEM, got .* key values mismatch"),
        ("ca", "ca", "locked", r"in \S+locked\.pem, both in PEM, got \["),
    ],
)
def test_files_that_are_no_use_are_named(certificates: Path, ca: str, cert: str, key: str, message: str) -> None:
    address = "tls://gpu7:8786"
    ClusterAddress(address, *(str(certificates / f"{name}.pem") for name in ("ca", "ca", "key"))).check_files()
    paths = [certificates / f"{name}.pem" for name in (ca, cert, key)]
    settings = Settings(cluster=address, cluster_tls_ca=paths[0], cluster_tls_cert=paths[1], cluster_tls_key=paths[2])
    with pytest.raises(InvalidSetting, match=message):
        process.run_worker(settings)


@pytest.mark.parametrize("address", ["", "gpu7:8786", "tls://gpu7", "http://gpu7:1", "tls://gpu7:99999", "tls://:1"])
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(InvalidSetting, match="expected tls://HOST:PORT, got"):
        ClusterAddress(address, *FILES)


def test_a_service_checks_its_cluster_when_it_starts() -> None:
    settings = Settings(cluster="tcp://gpu7:8786")
    for start in (process.run, process.run_worker):
        with pytest.raises(InvalidSetting, match="expected tls://"):
            start(settings)


def test_it_comes_from_settings_and_travels_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ClusterAddress.of(Settings()) is None
    for name, value in zip(("", "_TLS_CA", "_TLS_CERT", "_TLS_KEY"), ("tls://gpu7:8786", *FILES), strict=True):
        monkeypatch.setenv(f"NEARFIELD_CLUSTER{name}", value)
    found = ClusterAddress.of(Settings())
    assert found == ClusterAddress("tls://gpu7:8786", *FILES)
    assert msgspec.json.decode(msgspec.json.encode(found), type=ClusterAddress) == found
    assert (found.scheme, found.host, found.port) == ("tls", "gpu7", 8786)
