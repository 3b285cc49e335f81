"""The trainer with several ranks."""

from functools import partial
from pathlib import Path

import msgspec

from service.extras.ranks import trainer_module
from service.extras.ranks.cluster_address import ClusterAddress
from service.extras.ranks.trainer import form
from service.jobs.corpus import read_corpus
from service.settings.settings import Settings
from tests.service.jobs.test_trainer import ALS, END, data, run

__all__ = ["data"]
TWO = partial(form, 2, None, False)


def test_an_algorithm_that_cannot_use_several_ranks_trains_in_one(data: Path) -> None:
    last, _ = run(data, "ease", {}, form=TWO)
    assert (last.outcome, last.backend) == ("succeeded", "host: asked for; 1 rank, because ease cannot use 2")


def test_messages_have_what_ranks_exchange(data: Path) -> None:
    last, messages = run(data, "als", ALS, form=TWO)
    n_epochs = len(messages)
    assert [message.ranks for message in [*messages, last]] == [2] * (n_epochs + 1)
    assert "2 ranks, items half in mode gather, users half in mode gather" in str(last.backend)
    bytes_ = sum(message.sent.get("gather", 0) for message in [*messages, last])
    corpus = read_corpus(data, END).training
    tables = 4 * (ALS["n_factors"] + 1) * (corpus.n_users + corpus.n_items)
    n_gathered, rest = divmod(bytes_, tables)
    assert n_gathered == 1 + n_epochs  # at the start, and in each epoch
    numbers = 2 * 8  # of both ranks: how much memory each has, and how many pieces of rows pass by
    assert 0 < rest <= 6 * n_epochs * numbers
    assert rest % numbers == 0
    assert all(message.sent["shift"] > 0 for message in messages)  # rows of errors and of the model
    assert last.wait_seconds > 0


def test_one_rank_is_a_trainer_alone_and_several_are_on_the_cluster_of_the_settings() -> None:
    assert trainer_module(Settings(cluster="tcp://127.0.0.1:8786"), shares_gpu=True) == ["service.jobs.trainer"]
    name, *arguments = trainer_module(Settings(trainer_ranks=3, cluster="tcp://127.0.0.1:8786"), shares_gpu=True)
    assert name == "service.extras.ranks.trainer"
    assert arguments[:3] == ["--ranks", "3", "--cluster"]
    assert ClusterAddress.of(Settings(cluster="tcp://127.0.0.1:8786")) == msgspec.json.decode(
        arguments[3], type=ClusterAddress
    )
    assert arguments[4:] == ["--shares-gpu"]
    assert trainer_module(Settings(trainer_ranks=2), shares_gpu=False) == [name, "--ranks", "2"]
