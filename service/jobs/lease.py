"""`Lease`: keeps the lease of a running job while its worker is busy."""

from __future__ import annotations

import threading

from service.base.errors import Unavailable
from service.base.threads import helper
from service.jobs.table import JobTable

RENEW_EVERY_S = 1.0  # seconds between two renewals; a lease lasts ten


class Lease:
    """Renews the lease of one job in a thread of its own, as a context manager.

    The worker may wait for a slow disk or a processor for longer than a lease lasts, and the job would fail, although
    it goes on. The worker itself notices when it has lost the job.
    """

    def __init__(self, table: JobTable, job_id: str, worker: str) -> None:
        """Prepare; the thread starts with the block."""
        self._table, self._job_id, self._worker = table, job_id, worker
        self._ended = threading.Event()

    def __enter__(self) -> Lease:
        """Start to renew."""
        self._thread = helper("lease", self._run)
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(RENEW_EVERY_S):
            try:
                self._table.renew(self._job_id, self._worker)
            except Unavailable:  # Redis may come back before the lease ends
                continue
