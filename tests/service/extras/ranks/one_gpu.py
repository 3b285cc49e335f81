"""`OneGpu`: a launcher whose ranks share the one GPU of a machine; `launcher_for`: where there may be more."""

from gpu.base.backend import Backend
from gpu.base.device import memory_of_devices
from service.extras.ranks.rank_process import Here, RankProcess, environment
from service.jobs.gpu_order import VISIBLE, inherited

SOCKETS = {
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_NET": "Socket",
    "NCCL_SOCKET_IFNAME": "lo",
}


def own_machine(rank: int) -> dict[str, str]:
    """What lets NCCL take a rank for one on a machine of its own: it refuses two ranks on one device of one machine."""
    return SOCKETS | {"NCCL_HOSTID": f"machine {rank}"}


class OneGpu(Here):
    """Starts ranks on the first GPU; NCCL sends through sockets, as between machines."""

    def available(self, n_ranks: int, backend: Backend) -> int:
        """All of them."""
        return n_ranks

    def start(self, rank: int, n_ranks: int, coordinator: tuple[str, int], key: bytes, backend: Backend) -> RankProcess:
        """A process of this machine."""
        own = environment(inherited(), rank, n_ranks, backend) | own_machine(rank) | {VISIBLE: "0"}
        return RankProcess(rank, coordinator, key, own)


def launcher_for(n_ranks: int) -> Here:
    """The launcher that users have, if there are enough GPUs; else one whose ranks share the first."""
    return Here() if len(memory_of_devices()) >= n_ranks else OneGpu()
