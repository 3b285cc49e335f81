"""`JobTrace`: the spans of one job and of its phases, recorded by the process that supervises it.

The trainer tells its phases, so that it needs no OpenTelemetry, and one that is killed shows where it was.
"""

from __future__ import annotations

import time

from service.jobs.table import JobFields, name_of
from service.telemetry.span import Span, Value
from service.telemetry.trace_context import Trace
from service.telemetry.traces import active

NAMES = {"train": "training", "forget": "forgetting", "lists": "lists", "undo": "undoing"}
FIELD = "traceparent"  # of a job that is recorded


class JobTrace:
    """The trace of one job, part of that of the request that has submitted it. Does nothing if it is not recorded."""

    def __init__(self, job: JobFields) -> None:
        """The job begins."""
        self._tracer, self._job = active(), job
        self._trace: Trace | None = None
        self._began_ns = self._phase_ns = time.time_ns()
        self._phase = ""
        if self._tracer is not None:
            cause = Trace.of_header(job.get(FIELD))
            self._trace = self._tracer.rare() if cause is None else cause.child()

    @property
    def fields(self) -> dict[str, str]:
        """What the job must tell those who work on with its result."""
        return {} if self._trace is None else {FIELD: self._trace.header}

    def phase(self, name: str) -> None:
        """A phase begins, and the one before is over; the same one goes on."""
        if self._tracer is None or self._trace is None or name == self._phase:
            return
        now = time.time_ns()
        if self._phase:
            self._tracer.add(Span(self._phase, self._trace.child(), self._phase_ns, now, {}))
        self._phase, self._phase_ns = name, now

    def end(self, outcome: str, error: str | None) -> None:
        """The job is over; of `error` only the kind is shown, since its text may quote ratings."""
        self.phase("")
        if self._tracer is None or self._trace is None:
            return
        kind = None
        if error is not None or outcome == "failed":
            kind = (error or "").partition(":")[0]
            kind = kind if kind.isidentifier() else "failed"
        job = self._job
        attributes: dict[str, Value] = {"nearfield.job.id": job["id"], "nearfield.job.outcome": outcome}
        if job["kind"] == "train":  # the query of lists may name items
            attributes |= {
                "nearfield.model.name": name_of(job),
                "nearfield.model.algorithm": job["algorithm"],
                "nearfield.training.parameters": job["params"],
            }
        name = NAMES.get(job["kind"], "job")
        self._tracer.add(Span(name, self._trace, self._began_ns, time.time_ns(), attributes, error=kind))
