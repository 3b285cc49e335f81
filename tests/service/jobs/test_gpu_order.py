"""Jobs beside a service take the GPU that answers last."""

from pathlib import Path

import pytest

from gpu.base.device import memory_of_devices
from service.jobs import gpu_order
from service.jobs.gpu_order import environment, serving_last
from service.settings.settings import Settings


@pytest.fixture
def four_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        (tmp_path / f"0000:0{number}:00.0").mkdir()
    monkeypatch.setattr(gpu_order, "DRIVER", tmp_path)
    monkeypatch.setattr(gpu_order, "n_gpus_here", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("four_gpus")
def test_the_gpu_that_answers_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    assert serving_last(Settings()) == ("1", "2", "3", "0")
    assert serving_last(Settings(ranking_gpus=3)) == ("3", "0", "1", "2")
    assert serving_last(Settings(backend="host")) == ()
    assert environment(("1", "0"))["CUDA_VISIBLE_DEVICES"] == "1,0"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5ebe9f43")
    monkeypatch.setattr(gpu_order, "n_gpus_here", lambda: 2)
    assert serving_last(Settings()) == ("GPU-5ebe9f43", "3")
    assert environment(())["CUDA_VISIBLE_DEVICES"] == "3,GPU-5ebe9f43"
    monkeypatch.setattr(gpu_order, "n_gpus_here", lambda: 1)  # the second one does not work
    assert serving_last(Settings()) == ()


def test_gpus_are_counted_in_another_process() -> None:
    assert gpu_order.n_gpus_here() == len(memory_of_devices())


def test_a_machine_without_several_gpus_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_order, "n_gpus_here", lambda: pytest.fail("CUDA was asked"))
    monkeypatch.setattr(gpu_order, "DRIVER", tmp_path / "none")
    assert serving_last(Settings()) == ()
    (tmp_path / "0000:0f:00.0").mkdir()
    monkeypatch.setattr(gpu_order, "DRIVER", tmp_path)
    assert serving_last(Settings()) == ()
