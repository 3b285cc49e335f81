"""`LastWords`: the end of what a child process writes to its standard error, for the message about its death."""

from __future__ import annotations

import threading
from typing import IO

from service.base import threads

N_LINES = 20  # kept


class LastWords:
    """Reads a pipe in a thread until it closes, and keeps its last lines."""

    def __init__(self, pipe: IO[bytes], name: str) -> None:
        """Own the pipe; `name` is that of the thread."""
        self._pipe = pipe
        self._lines: list[str] = []
        self.thread: threading.Thread = threads.helper(name, self._read)

    def after(self, code: int) -> str:
        """How the process ended, by its return code, and the last line that it wrote."""
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        return f"{how}: {self._lines[-1]}" if self._lines else how

    def _read(self) -> None:
        with self._pipe as pipe:
            for raw in pipe:
                self._lines = [*self._lines[1 - N_LINES :], raw.decode(errors="replace").rstrip()]
