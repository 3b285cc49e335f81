"""Files of lists name all users: what a forgetting removes must not come back."""

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
