"""The trainer of `service.jobs.trainer` with several ranks. Try `python -m service.extras.ranks.trainer --help`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import msgspec

from gpu.algorithms import has_ranks
from gpu.base.backend import Backend
from gpu.ranks.choice import version_on
from service.extras.ranks.cluster import Cluster
from service.extras.ranks.cluster_address import ClusterAddress
from service.extras.ranks.rank_process import Here
from service.extras.ranks.ranks import Ranks
from service.jobs import trainer
from service.jobs.trainer import TrainerOptions
from service.storage import exclusion


def main(arguments: list[str] | None = None) -> int:
    """See `service.jobs.trainer.main`."""
    parser = trainer.parser("service.extras.ranks.trainer")
    parser.add_argument("--ranks", type=int, required=True, help="processes that train together, if the algorithm can")
    parser.add_argument(
        "--cluster",
        type=functools.partial(msgspec.json.decode, type=ClusterAddress),
        default=None,
        help="JSON of a ClusterAddress; its workers hold the ranks; default: this machine does",
    )
    parser.add_argument(
        "--shares-gpu", action="store_true", default=False, help="a service answers from the last visible GPU"
    )
    options = vars(parser.parse_args(arguments))
    ranks, cluster, shares_gpu = (options.pop(name) for name in ("ranks", "cluster", "shares_gpu"))
    return trainer.run(TrainerOptions(**options), functools.partial(form, ranks, cluster, shares_gpu))


def form(
    n_ranks: int,
    cluster: ClusterAddress | None,
    shares_gpu: bool,
    options: TrainerOptions,
    backend: Backend,
    on_loss: Callable[[str], None],
) -> tuple[Ranks | None, str]:
    """`n_ranks` ranks, if the algorithm can use them; see `service.jobs.trainer.FormTeam`.

    Args:
        n_ranks: at least 2.
        cluster: whose workers hold the ranks; None: this machine.
        shares_gpu: see `Here`.
        options: what to train.
        backend: where each rank computes.
        on_loss: called with a sentence after each lost attempt.

    Raises:
        BackendUnavailable: the ranks would have no means to exchange arrays.
    """
    if not has_ranks(options.algorithm):
        return None, f"; 1 rank, because {options.algorithm} cannot use {n_ranks}"
    work = (options.data / exclusion.WORK / options.job).absolute()  # another machine has another working directory
    launcher = Here(shares_gpu=shares_gpu) if cluster is None else Cluster(cluster)
    version = version_on(backend)
    remark = f"; {n_ranks} ranks, {version}" if version else f"; {n_ranks} ranks"
    return Ranks(n_ranks, work, on_loss, launcher=launcher), remark


if __name__ == "__main__":
    trainer.serve_supervisor()
    sys.exit(main())
