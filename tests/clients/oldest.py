"""Reads all types of the Python client. A workflow runs it alone on the oldest Python that the client names."""

import importlib
import pkgutil

from nearfield_client.generated import api, models
from nearfield_client.model import Entries, Model
from nearfield_client.operation import Operation


def read() -> int:
    """Read each type as its first answer does; returns their number."""
    n = 0
    for module in pkgutil.iter_modules(api.__path__):
        for operation in vars(importlib.import_module(f"{api.__name__}.{module.name}")).values():
            if isinstance(operation, Operation):
                assert operation._answer is not None
                n += 1
    for kind in vars(models).values():
        if isinstance(kind, type) and kind.__module__ == models.__name__:
            if issubclass(kind, Entries):
                kind.from_dict({})
            elif issubclass(kind, Model):
                try:
                    kind.from_dict({})
                except TypeError as error:
                    assert "required positional argument" in str(error), error
            n += 1
    return n


if __name__ == "__main__":
    assert read() > 150
