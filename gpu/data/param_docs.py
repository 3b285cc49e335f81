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
    kinds: list[type[Params]] = [Params]
    for parent in kinds:
        kinds += parent.__subclasses__()  # which the loop then comes to
    named = {each.__name__: each for each in kinds}
    texts: dict[str, str] = {}
    for described in inspect.getmro(kind):
        section = _SECTION.search(inspect.cleandoc(described.__doc__ or ""))
        for names, lines in _ENTRY.findall("" if section is None else section[1]):
            text = " ".join(lines.split())
            reference = _AS_IN.fullmatch(text)
            for name in names.split(", "):
                texts.setdefault(name, text if reference is None else meanings(named[reference[1]]).get(name, ""))
    return {name: _MODULE.sub("", text).replace("`", "") for name, text in texts.items() if text}
