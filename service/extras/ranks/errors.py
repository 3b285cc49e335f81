"""Errors of a training on several ranks. No request meets them: they become the error of a job or of a command.

ServiceError
├── CorruptWorkFile: a file that the ranks share is torn or altered
├── ForeignCheckpoint: a checkpoint belongs to another training
├── WorkFolderUnavailable: the work folder cannot be written (disk full)
├── ClusterUnavailable: the cluster of NEARFIELD_CLUSTER cannot be reached, or has too few workers
├── RankRefused: a rank runs another version of Nearfield, NumPy or Python
└── RanksFailed: ranks were lost again and again
"""

from __future__ import annotations

from pathlib import Path

from service.base.errors import ServiceError


class CorruptWorkFile(ServiceError):
    """A file that the ranks share is missing, torn or altered; the message names it."""


class ForeignCheckpoint(ServiceError):
    """A checkpoint belongs to a training with other ratings or parameters; the message names it."""


class WorkFolderUnavailable(ServiceError):
    """The work folder of a training cannot be written, most often because the disk is full."""

    @classmethod
    def of(cls, folder: Path, error: OSError) -> WorkFolderUnavailable:
        """The error for a work folder and what the system reports."""
        return cls(f"The work folder {folder} cannot be written: {error.strerror or error}; make room on its disk")


class ClusterUnavailable(ServiceError):
    """The Dask cluster cannot be used: its scheduler does not answer, or it has too few workers."""


class RankRefused(ServiceError):
    """A rank runs another version of Nearfield, NumPy or Python; the message has both."""


class RanksFailed(ServiceError):
    """Ranks were lost again and again without progress; the message has the last words of one."""
