"""Trainings in the process of the test, which are faster than a job."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from service.jobs import trainer
from service.jobs.trainer import FormTeam
from service.jobs.trainer_messages import TrainerMessage
from service.storage import exclusion
from service.storage.events import StreamId
from tests.service.waiting import eventually


def train(
    data: Path,
    algorithm: str,
    params: dict[str, Any],
    watermark: StreamId,
    send: Callable[[TrainerMessage], None] = lambda message: None,
    form: FormTeam | None = None,
    **options: Any,
) -> TrainerMessage:
    """Train on the log in `data` up to `watermark`; the last message. `options`: further ones of `TrainerOptions`.

    As in a job, no forgetting removes what is being written.
    """
    text = msgspec.json.encode(params).decode()
    given = {"job": "job", "backend": "host"} | options
    with eventually(lambda: exclusion.try_take(data, shared=True)):
        return trainer.train(
            trainer.TrainerOptions(data=data, algorithm=algorithm, params=text, watermark=str(watermark), **given),
            send,
            form,
        )
