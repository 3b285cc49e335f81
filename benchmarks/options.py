"""Options that several commands have, and what they say: lists with commas between, parameters as NAME=VALUE."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.report import say
from gpu.backend import Backend, choose
from gpu.params import params_for

File = Annotated[Path, typer.Option("--ratings", help="File of ratings.", metavar="FILE", exists=True)]
Source = Annotated[
    Path,
    typer.Option("--ratings", help="File, or folder of raw arrays as cuMF reads them.", metavar="PATH", exists=True),
]
Json = Annotated[bool, typer.Option("--json", help="JSON lines; the machine first.")]
Names = Annotated[str, typer.Option("--algorithms", help="Comma-separated names.")]
Parameters = Annotated[list[str] | None, typer.Option("--set", help="A parameter.", metavar="NAME=VALUE")]
Seeds = Annotated[str, typer.Option(help="Comma-separated, each a run.")]
Where = Annotated[str, typer.Option("--backend", help="auto, host or device.")]


def chosen(backend: str) -> Backend:
    """The backend of that name, which is said on stderr.

    Raises:
        BackendUnavailable: there is none of that name, or no device.
    """
    found = choose(backend)  # type: ignore[arg-type] # `choose` refuses an unknown name
    say(f"backend: {found.name} ({found.reason})")
    return found


def numbers(text: str) -> list[float]:
    """The numbers in "0.25,0.5,1".

    Raises:
        typer.BadParameter: one of them is none.
    """
    try:
        return [float(number) for number in text.split(",") if number]
    except ValueError:
        raise typer.BadParameter(f"expected numbers with commas between, got {text!r}") from None


def whole(text: str) -> list[int]:
    """The whole numbers in "32,128". Raises as `numbers`, also for a fraction."""
    found = numbers(text)
    if not all(number.is_integer() for number in found):
        raise typer.BadParameter(f"expected whole numbers with commas between, got {text!r}")
    return [int(number) for number in found]


def algorithms(text: str) -> list[str]:
    """The names in "sgd,culsh".

    Raises:
        InvalidParams: there is no such algorithm.
    """
    names = text.split(",")
    for name in names:
        params_for(name, {})
    return names


def parameters(pairs: Sequence[str] | None) -> dict[str, str]:
    """Each NAME=VALUE.

    Raises:
        typer.BadParameter: one has no `=`.
    """
    for pair in pairs or ():
        if "=" not in pair:
            raise typer.BadParameter(f"expected NAME=VALUE, got {pair!r}")
    return dict(pair.split("=", 1) for pair in pairs or ())
