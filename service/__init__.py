"""Nearfield's processes and promises: stream, log, resident model, trainer, HTTP."""
