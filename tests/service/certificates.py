"""Certificates for tests, made by the program openssl."""

import subprocess
from pathlib import Path

HOSTS = "subjectAltName=IP:127.0.0.1,DNS:localhost"


def make(folder: Path, name: str, *options: str) -> tuple[Path, Path]:
    """A certificate that is its own authority, and its key: of this machine's loopback, for two days."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2"]
    about = ["-subj", f"/CN={name}", "-addext", HOSTS, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *about, *(options or ["-nodes"])], check=True, capture_output=True)
    return certificate, key
