"""The Nearfield service: stream, rating log, live models, trainer, HTTP API and command line."""

__version__ = "0.1.0"
