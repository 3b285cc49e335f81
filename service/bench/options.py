"""What options of `nearfield bench` say: lists with commas between, and parameters as NAME=VALUE."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from gpu.params import params_for


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
