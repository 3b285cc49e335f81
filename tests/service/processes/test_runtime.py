import errno
from pathlib import Path

import pytest

from service.jobs.training import Training
from service.storage.log.segment_folder import SegmentFolder
from tests.service.local import serving
from tests.service.waiting import eventually


def test_a_log_that_cannot_be_written_is_not_ready_and_still_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with serving(tmp_path) as service:
        with monkeypatch.context() as patched:
            patched.setattr(SegmentFolder, "write", full)
            last = service.rate(("ann", "tea", 5))
            service.runtime.jobs.submit_training(Training.of("als", {}))  # requests a commit of all entries
            eventually(lambda: service.get("/health/ready").status_code == 503)
            reason = service.get("/health/ready").json()["reason"]
            assert reason == "the rating log cannot be written: No space left on device"
            rating = {"user": "ann", "item": "rye", "rating": 1}
            eventually(lambda: service.post("/ratings", rating).status_code == 503)  # the front hears of it soon
            assert service.get("/users/ann/ratings", wait_for=last).status_code == 200
        eventually(lambda: service.get("/health/ready").status_code == 200)
        service.rate(("ann", "rye", 1))


def test_an_embedded_redis_that_lost_its_tail_goes_on_from_the_log(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        for number in range(5):
            last = service.rate(("ann", f"tea {number}", 5), ("bob", f"tea {number}", number))
    (appended,) = (tmp_path / "redis" / "appendonlydir").glob("*.incr.aof")
    appended.write_bytes(appended.read_bytes()[:-7])
    with serving(tmp_path) as service:
        assert len(service.get("/users/bob/ratings", wait_for=last).json()["ratings"]) == 5
        newer = service.rate(("ann", "rye", 1))
        assert len(service.get("/users/ann/ratings", wait_for=newer).json()["ratings"]) == 6
