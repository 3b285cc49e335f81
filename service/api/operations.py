"""Operations on the service as a whole: its state, jobs, models and forgotten users, and the answers to them.

They are structs, so that a front process can send them. `service.processes.performer` performs them. Extras have
operations of their own.
"""

from __future__ import annotations

from msgspec import Struct

from service.engine.models.model_info import ModelInfo
from service.engine.queries import Recommend
from service.jobs.jobs import Job
from service.jobs.training import Training
from service.jobs.undo import Undo
from service.storage.list_files import ListFile
from service.telemetry.metrics import PLAIN_TEXT


class GetReadiness(Struct, frozen=True, tag=True):
    """Asks for `Ready`. Raises `NotReady` while ratings are read or a live model cannot answer."""


class GetMetrics(Struct, frozen=True, tag=True):
    """Asks for the page of `/metrics` in the format `kind`: `PLAIN_TEXT` or `OPEN_TEXT`."""

    kind: str = PLAIN_TEXT


class SubmitTraining(Struct, frozen=True, tag=True):
    """Asks for a `Job`, see `Jobs.submit_training`, which has the errors."""

    training: Training


class ListJobs(Struct, frozen=True, tag=True):
    """Asks for a `JobList`."""


class GetJob(Struct, frozen=True, tag=True):
    """Asks for a `Job`. Raises `UnknownJob`."""

    job: str


class CancelJob(Struct, frozen=True, tag=True):
    """Asks for a `Job`, which will stop. Raises `UnknownJob`."""

    job: str


class ListModels(Struct, frozen=True, tag=True):
    """Asks for a `ModelList`."""


class ActivateModel(Struct, frozen=True, tag=True):
    """Asks for the `ModelInfo` of a version, which goes live. Raises `UnknownVersion`, `CorruptSnapshot`."""

    version: str


class EndModel(Struct, frozen=True, tag=True):
    """Asks for an `EndedModel`, which does not answer any more. Raises `UnknownModel`, `CorruptLiveFile`."""

    model: str


class ArchiveAll(Struct, frozen=True, tag=True):
    """Asks that the rating log gets all that is acknowledged by now, for `Archived`. Raises `LogUnavailable`."""


class SubmitLists(Struct, frozen=True, tag=True):
    """Asks for a `Job`, see `Jobs.submit_lists`, which has the errors."""

    query: Recommend
    body: str
    user_filter: str | None


class SubmitUndo(Struct, frozen=True, tag=True):
    """Asks for a `Job`, see `Jobs.submit_undo`."""

    undo: Undo


class GetStats(Struct, frozen=True, tag=True):
    """Asks for `Stats`, see `Statistics.take`."""


class CheckNewIds(Struct, frozen=True, tag=True):
    """Counts the new ones among `users` and `items` against the quotas and the limit of the client's key.

    Raises `QuotaExceeded`, `TooManyNewIds`.
    """

    users: list[str]
    items: list[str]


class CheckNewNames(Struct, frozen=True, tag=True):
    """Counts `n_new` names of attributes against the limit of the client's key. Raises `TooManyNewNames`."""

    n_new: int


class ForgetUser(Struct, frozen=True, tag=True):
    """Asks for `Forgotten`. Raises what `Writes.append` raises."""

    user: str


Operation = (
    GetReadiness
    | GetMetrics
    | GetStats
    | ArchiveAll
    | SubmitLists
    | SubmitUndo
    | CheckNewIds
    | CheckNewNames
    | SubmitTraining
    | ListJobs
    | GetJob
    | CancelJob
    | ListModels
    | ActivateModel
    | EndModel
    | ForgetUser
)


class Ready(Struct):
    """The answer of a ready service.

    Attributes:
        as_of: the last entry that it has learned.
        left_out: versions that should be live and cannot be loaded; `GET /admin/models` says why.
    """

    status: str
    as_of: str
    left_out: list[str] = []


class Archived(Struct):
    """The rating log has all entries up to `as_of`, which were all at the time of the request."""

    as_of: str


class ListFiles(Struct):
    """All files of lists, newest first."""

    exports: list[ListFile]


class JobList(Struct):
    """All jobs in Redis."""

    jobs: list[Job]


class ModelList(Struct):
    """All snapshots on disk."""

    models: list[ModelInfo]


class EndedModel(Struct):
    """The model that was live under `name` has ended; `cancelled` has the ids of its trainings that will stop."""

    name: str
    cancelled: list[str]


class Forgotten(Struct):
    """No answer after `stream_id` contains the user; `job` removes the data on disk; `note` says what remains."""

    stream_id: str
    job: str
    note: str
