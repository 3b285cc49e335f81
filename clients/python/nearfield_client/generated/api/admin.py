"""The operations of the tag admin. Made by `make clients` from the OpenAPI document of the service."""
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import Any

from nearfield_client.generated.models import (
    AuditPage,
    DocumentDetails,
    EndedModel,
    ExperimentBody,
    ExperimentList,
    ExperimentReport,
    ExportFormat,
    ExportUserFormat,
    ExportWhat,
    Forgotten,
    ItemList,
    Job,
    JobList,
    KeyBody,
    KeyList,
    ListedKey,
    ListFiles,
    ListHiddenItemsFilter,
    ListsBody,
    MadeKey,
    MadeWebhook,
    MergeBody,
    ModelInfo,
    ModelList,
    QualityReport,
    RatingPage,
    RemovedSource,
    Retrain,
    ScenarioBody,
    ScenarioList,
    ScheduleList,
    SourceList,
    Stats,
    Webhook,
    WebhookBody,
    WebhookList,
    Written,
)
from nearfield_client.operation import operation
from nearfield_client.session import Session


@operation("GET", "/admin/stats")
def get_stats(*, client: Session, wait_for: str | None = None) -> Stats:
    """Sizes of the service, its log, its stream and its live models.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
    """
    ...


@operation("GET", "/admin/ratings")
def list_ratings(
    *,
    client: Session,
    wait_for: str | None = None,
    n: int | None = None,
    cursor: str | None = None,
    below: float | None = None,
    above: float | None = None,
) -> RatingPage:
    """A page of all ratings, or of those below or above a value. It may be short although there are more.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        n: How many results.
        cursor: `next` of the page before; empty or by default: the first page.
        below: List only ratings below this value.
        above: List only ratings above this value.
    """
    ...


@operation("GET", "/admin/items")
def list_hidden_items(
    *,
    client: Session,
    wait_for: str | None = None,
    n: int | None = None,
    cursor: str | None = None,
    hidden: bool | None = None,
    filter_: ListHiddenItemsFilter | None = None,
) -> ItemList:
    """A page of all items that are not deleted, or of those that are hidden (`hidden=true`) or not.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        n: How many results.
        cursor: `next` of the page before; empty or by default: the first page.
        hidden: Whether to list hidden items or others; default: both.
        filter_: `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`.
    """
    ...


@operation("POST", "/admin/retrain")
def retrain(*, client: Session, body: Retrain) -> Job:
    """Train a model on every rating acknowledged so far; it goes live if it is good enough.

    If the same training waits already, the answer is its job, which will read these ratings too.
    """
    ...


@operation("GET", "/admin/jobs")
def list_jobs(*, client: Session, wait_for: str | None = None) -> JobList:
    """All jobs, newest first.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
    """
    ...


@operation("GET", "/admin/jobs/{job}")
def get_job(job: str, *, client: Session, wait_for: str | None = None) -> Job:
    """One job.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
    """
    ...


@operation("DELETE", "/admin/jobs/{job}")
def cancel_job(job: str, *, client: Session) -> Job:
    """Stop a queued or running job. A finished job does not change."""
    ...


@operation("GET", "/admin/models")
def list_models(*, client: Session, wait_for: str | None = None) -> ModelList:
    """All snapshots, and which of them are live.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
    """
    ...


@operation("GET", "/admin/models/{model}/quality")
def get_quality(model: str, *, client: Session, wait_for: str | None = None) -> QualityReport:
    """How well a live model foretold ratings and events before it learned them, and a baseline beside it.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
    """
    ...


@operation("POST", "/admin/models/{version}/activate")
def activate_model(version: str, *, client: Session) -> ModelInfo:
    """Make a snapshot live under its name, without comparing it with the live one. Use it to roll back."""
    ...


@operation("DELETE", "/admin/models/{name}")
def end_model(name: str, *, client: Session, wait_for: str | None = None) -> EndedModel:
    """End a live model or shadow: it neither answers nor learns. Its snapshots stay; activate one to go back.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
    """
    ...


@operation("PUT", "/admin/items/{item}/hidden")
def hide_item(item: str, *, client: Session) -> Written:
    """Never recommend this item again; it still counts for learning.

    Args:
        item: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("DELETE", "/admin/items/{item}/hidden")
def show_item(item: str, *, client: Session) -> Written:
    """Recommend this item again.

    Args:
        item: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("DELETE", "/admin/users/{user}")
def forget_user(user: str, *, client: Session) -> Forgotten:
    """Forget a user: at once in all answers, and on disk when the job is done.

    Args:
        user: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("POST", "/admin/users/{user}/merge")
def merge_user(user: str, *, client: Session, body: MergeBody) -> Written:
    """Make another user, such as an anonymous one, part of this user: all ratings and events, in one step.

    Args:
        user: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("PUT", "/admin/scenarios/{name}")
def put_scenario(name: str, *, client: Session, body: ScenarioBody) -> Written:
    """Store a body under a name, for `scenario=` in requests for lists. It replaces an earlier one.

    Args:
        name: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("DELETE", "/admin/scenarios/{name}")
def delete_scenario(name: str, *, client: Session) -> Written:
    """Remove a scenario, if there is one of that name.

    Args:
        name: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("GET", "/admin/scenarios/{name}")
def get_scenario(name: str, *, client: Session, wait_for: str | None = None) -> DocumentDetails:
    """The body of a scenario.

    Args:
        name: Percent-encoded, so any character may occur in it.
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
    """
    ...


@operation("GET", "/admin/scenarios")
def list_scenarios(*, client: Session, wait_for: str | None = None) -> ScenarioList:
    """The names of all scenarios.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
    """
    ...


@operation("GET", "/admin/sources")
def list_sources(
    *, client: Session, wait_for: str | None = None, n: int | None = None, offset: int | None = None
) -> SourceList:
    """How far each source has come; the one that advanced last comes first.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        n: How many results.
        offset: How many of the newest to leave out.
    """
    ...


@operation("DELETE", "/admin/sources/{source}")
def remove_source(source: str, *, client: Session, key: str | None = None) -> RemovedSource:
    """Forget how far a source has come, if it has: its next batch counts, whatever its offset is.

    Args:
        source: Percent-encoded, so any character may occur in it.
        key: Only the source of this key, as the list names it; empty: of none. Default: of every key.
    """
    ...


@operation("POST", "/admin/sources/{source}/undo")
def undo_source(source: str, *, client: Session, key: str | None = None, dry_run: bool | None = None) -> Job:
    """Take back what a source has sent until now: ratings, and events with an id. Then its batches count again.

    A pair that was rated since keeps the newer rating. `metrics` of the job has the numbers.

    Args:
        source: Percent-encoded, so any character may occur in it.
        key: Only the source of this key, as the list names it; empty: of none. Default: of every key.
        dry_run: Whether to count what it would take back, and change nothing.
    """
    ...


@operation("GET", "/admin/audit")
def list_audit(*, client: Session, n: int | None = None, cursor: str | None = None) -> AuditPage:
    """What was done with the rights of an admin, and what of it was refused, newest first.

    Args:
        n: How many results.
        cursor: `next` of the page before; empty or by default: the first page.
    """
    ...


@operation("PUT", "/admin/experiments/{experiment}")
def put_experiment(experiment: str, *, client: Session, body: ExperimentBody) -> Written:
    """Divide the users among models that answer. It replaces an earlier experiment, and counts begin at 0.

    Args:
        experiment: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("DELETE", "/admin/experiments/{experiment}")
def delete_experiment(experiment: str, *, client: Session) -> Written:
    """End an experiment, if there is one of that id; its counts are gone.

    Args:
        experiment: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("GET", "/admin/experiments/{experiment}")
def get_experiment(experiment: str, *, client: Session, wait_for: str | None = None) -> ExperimentReport:
    """The arms, and the rates of users with events of each type, with intervals.

    Args:
        experiment: Percent-encoded, so any character may occur in it.
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
    """
    ...


@operation("GET", "/admin/experiments")
def list_experiments(*, client: Session, wait_for: str | None = None) -> ExperimentList:
    """The ids of all experiments.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
    """
    ...


@operation("GET", "/admin/export")
def export(
    *, client: Session, wait_for: str | None = None, format_: ExportFormat | None = None, what: ExportWhat | None = None
) -> Any:
    """All ratings, events or items at one position, which X-As-Of names; `nearfield import` reads them back.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        format_: NDJSON, Parquet, or a stream of Arrow.
        what: What to export.
    """
    ...


@operation("GET", "/admin/users/{user}/export")
def export_user(
    user: str, *, client: Session, wait_for: str | None = None, format_: ExportUserFormat | None = None
) -> Any:
    """All that is kept of one user: the rows that forgetting this user would remove, also those of merged ids.

    Args:
        user: Percent-encoded, so any character may occur in it.
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        format_: NDJSON, Parquet, or a stream of Arrow.
    """
    ...


@operation("POST", "/admin/lists")
def make_lists(*, client: Session, body: ListsBody) -> Job:
    """Make lists for all or some users, as POST /recommend gives them at this position, in a Parquet file."""
    ...


@operation("GET", "/admin/exports")
def list_exports(*, client: Session) -> ListFiles:
    """The files of lists, newest first."""
    ...


@operation("GET", "/admin/exports/{job}")
def get_export(job: str, *, client: Session) -> Any:
    """The lists of one job: user, rank, item and score, in Parquet."""
    ...


@operation("GET", "/admin/schedules")
def list_schedules(*, client: Session) -> ScheduleList:
    """The lines of the setting `schedules`: when each is due next, and what became of the last time."""
    ...


@operation("GET", "/admin/webhooks")
def list_webhooks(*, client: Session) -> WebhookList:
    """All webhooks without their secrets, and what became of their deliveries."""
    ...


@operation("POST", "/admin/webhooks")
def make_webhook(*, client: Session, body: WebhookBody) -> MadeWebhook:
    """Send a signed request to a URL whenever a job ends, and again until it is accepted."""
    ...


@operation("DELETE", "/admin/webhooks/{webhook}")
def remove_webhook(webhook: str, *, client: Session) -> Webhook:
    """Remove a webhook; what is still to be delivered to it is dropped."""
    ...


@operation("GET", "/admin/keys")
def list_keys(*, client: Session) -> KeyList:
    """All keys that were made and not revoked, those that have expired too, without the keys themselves."""
    ...


@operation("POST", "/admin/keys")
def make_key(*, client: Session, body: KeyBody) -> MadeKey:
    """Make a key. The service stores its hash alone: keep the key."""
    ...


@operation("DELETE", "/admin/keys/{key}")
def revoke_key(key: str, *, client: Session) -> ListedKey:
    """Revoke a key by its id: at once in this process, within a quarter of a second in all that share the folder."""
    ...
