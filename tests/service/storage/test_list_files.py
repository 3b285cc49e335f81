"""Files of lists name all users: what a forgetting removes must not come back."""

import os
from collections import Counter
from pathlib import Path

import pytest

from service.storage import files, list_files


def test_a_removal_that_was_not_synced_is_synced_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that failed once may bring back the files at a power cut."""
    list_files.remove_all(tmp_path)  # without a folder there is nothing to sync
    folder = tmp_path / list_files.FOLDER
    folder.mkdir()
    for name in ("0123456789ab.parquet", "0123456789ac.parquet.part", ".half.tmp"):
        (folder / name).touch()
    with monkeypatch.context() as broken:
        broken.setattr(files, "_FAULT_AT", "fsync:1:ENOSPC")
        broken.setattr(files, "_reached", Counter())
        with pytest.raises(OSError, match="No space"):
            list_files.remove_all(tmp_path)
    assert not list(folder.iterdir())
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync", synced.append)
    list_files.remove_all(tmp_path)
    assert synced == [folder]


def test_the_newest_files_of_jobs_are_listed_and_stay(tmp_path: Path) -> None:
    assert list_files.listed(tmp_path) == []
    jobs = [f"{n:012x}" for n in range(2 * list_files.N_KEPT)]
    (tmp_path / list_files.FOLDER).mkdir()
    for n, job in enumerate(jobs):
        path = list_files.path_of(tmp_path, job)
        path.write_bytes(bytes(n))
        os.utime(path, (0, 1000 + n // 2))  # two at a time
    (tmp_path / list_files.FOLDER / "notes.parquet").touch()
    newest_first = sorted(range(len(jobs)), key=lambda n: (-(n // 2), n))
    assert [(file.job, file.bytes, file.created_ms) for file in list_files.listed(tmp_path)] == [
        (jobs[n], n, 1_000_000 + 1000 * (n // 2)) for n in newest_first
    ]
    list_files.prune(tmp_path)
    kept = [jobs[n] for n in newest_first[: list_files.N_KEPT]]
    assert [file.job for file in list_files.listed(tmp_path)] == kept
    assert (tmp_path / list_files.FOLDER / "notes.parquet").exists()
    for job in (*jobs, "notes", "../exports/" + kept[0]):
        if job in kept:
            assert list_files.existing(tmp_path, job) == list_files.path_of(tmp_path, job)
        else:
            with pytest.raises(list_files.UnknownLists):
                list_files.existing(tmp_path, job)
