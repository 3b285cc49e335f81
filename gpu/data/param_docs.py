"""What each hyperparameter means: the sections `Attributes` of their classes, as text for people."""

from __future__ import annotations

import inspect
import re
from typing import Any

from gpu.data.param_kinds import Params

_SECTION = re.compile(r"^Attributes[^\n]*:\n((?:    .*\n?|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n        .*)*)", re.MULTILINE)
_AS_IN = re.compile(r"as in `(\w+)`\.")
_MODULE = re.compile(r" \(`gpu\.[\w.]+`\)")


def meanings(kind: type[Any]) -> dict[str, str]:
    """The meaning of each parameter of an algorithm that its class or a base class describes.

    A parameter that is "as in" another class gets the text of that class. Empty if Python was started without
    docstrings.
    """
    texts: dict[str, str] = {}
    for described in inspect.getmro(kind):
        section = _SECTION.search(inspect.cleandoc(described.__doc__ or ""))
        for names, lines in _ENTRY.findall("" if section is None else section[1]):
            text = " ".join(lines.split())
            reference = _AS_IN.fullmatch(text)
            for name in names.split(", "):
                texts.setdefault(name, text if reference is None else meanings(_class(reference[1])).get(name, ""))
    return {name: _MODULE.sub("", text).replace("`", "") for name, text in texts.items() if text}


def _class(name: str) -> type[Params]:
    waiting = [Params]
    while (one := waiting.pop()).__name__ != name:
        waiting += one.__subclasses__()
    return one
