"""Options of several commands, and parsers for their values: comma-separated lists, and NAME=VALUE."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.results import say
from gpu.algorithms import params_for
from gpu.base.backend import Backend, choose

Data = Annotated[
    Path, typer.Option("--data", help="Folder with one subfolder for each set.", metavar="DIR", exists=True)
]
File = Annotated[Path, typer.Option("--ratings", help="File of ratings.", metavar="FILE", exists=True)]
Source = Annotated[
    Path, typer.Option("--ratings", help="File of ratings, or folder of raw arrays as cuMF reads.", exists=True)
]
Fits = Annotated[
    Path | None,
    typer.Option("--json", help="File of JSON lines for raw rows; its rows are not computed again.", metavar="FILE"),
]
Algorithm = Annotated[str, typer.Option("--algorithm", help="Algorithm of the model.", metavar="NAME")]
Names = Annotated[str, typer.Option("--algorithms", help="Comma-separated algorithms.")]
Factors = Annotated[str, typer.Option("--factors", help="Comma-separated numbers of factors F, or K.")]
Parameters = Annotated[
    list[str] | None, typer.Option("--set", help="Set a parameter; may be repeated.", metavar="NAME=VALUE")
]
Sets = Annotated[list[str] | None, typer.Option("--set", help="Name of a set; may be repeated.", metavar="NAME")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of what is drawn.")]
Seeds = Annotated[str, typer.Option("--seeds", help="Comma-separated seeds, one run each.")]
Where = Annotated[str, typer.Option("--backend", help="Backend: auto, host or device.")]


def chosen(backend: str) -> Backend:
    """The backend of that name; prints it on stderr."""
    selected = choose(backend)  # type: ignore[arg-type] # `choose` refuses an unknown name
    say(f"backend: {selected.name} ({selected.reason})")
    return selected


def numbers(text: str) -> list[float]:
    """Parse numbers such as "0.25,0.5,1"."""
    try:
        return [float(number) for number in text.split(",") if number]
    except ValueError:
        raise typer.BadParameter(f"expected numbers with commas between, got {text!r}") from None


def whole(text: str) -> list[int]:
    """Parse whole numbers such as "32,128". Raises like `numbers`, also for a fraction."""
    values = numbers(text)
    if not all(number.is_integer() for number in values):
        raise typer.BadParameter(f"expected whole numbers with commas between, got {text!r}")
    return [int(number) for number in values]


def algorithms(text: str) -> list[str]:
    """Parse names such as "sgd,culsh"."""
    names = text.split(",")
    for name in names:
        params_for(name, {})
    return names


def parameters(pairs: Sequence[str] | None) -> dict[str, str]:
    """Parse NAME=VALUE pairs."""
    for pair in pairs or ():
        if "=" not in pair:
            raise typer.BadParameter(f"expected NAME=VALUE, got {pair!r}")
    return dict(pair.split("=", 1) for pair in pairs or ())


def check(names: Sequence[str], choices: Collection[str], option: str) -> None:
    """Refuse a name that is not among `choices`."""
    for name in names:
        if name not in choices:
            raise typer.BadParameter(f"expected one of {', '.join(choices)}, got {name!r}", param_hint=option)
