"""Nearfield's processes and promises: stream, log, resident model, trainer, HTTP."""

__version__ = "0.1.0"
