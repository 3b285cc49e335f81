import pytest

import gpu
from gpu.base.backend import HOST, Backend
from gpu.data.model import MAX_WEIGHTED, bytes_of
from gpu.online import SOLVER_BYTES
from gpu.online.room import needed_bytes

DEVICE = Backend("device", "only counted")
READ, SERVED, N_RATINGS = (1000, 200), (1100, 300), 50_000


@pytest.mark.parametrize("algorithm", ["culsh", "sgd", "als"])
def test_the_host_holds_a_model_as_read_and_in_its_own_rows(algorithm: str) -> None:
    params = gpu.params_for(algorithm, {})
    users, items = bytes_of(params, *SERVED)
    for backend in (HOST, DEVICE):
        needed = needed_bytes(params, READ, SERVED, N_RATINGS, backend)
        assert needed["host"] == sum(bytes_of(params, *READ)) + 2 * users + 2 * items
    assert list(needed_bytes(params, READ, SERVED, N_RATINGS, HOST)) == ["host"]


def test_a_device_holds_what_learns_there_and_for_others_the_items_and_what_solves_rows() -> None:
    learned, exact = gpu.params_for("culsh", {}), gpu.params_for("als", {})
    of = {n: needed_bytes(learned, READ, SERVED, n, DEVICE)["device"] for n in (0, N_RATINGS)}
    assert of[0] > sum(bytes_of(learned, *SERVED)) + bytes_of(learned, *SERVED)[1]
    assert of[N_RATINGS] - of[0] >= 22 * N_RATINGS
    of_exact = {n: needed_bytes(exact, READ, SERVED, n, DEVICE)["device"] for n in (0, N_RATINGS)}
    assert of_exact[0] == of_exact[N_RATINGS] == 3 * bytes_of(exact, *SERVED)[1] + SOLVER_BYTES


@pytest.mark.parametrize("algorithm", ["culsh", "als"])
def test_devices_share_what_is_laid_out_for_ranking(algorithm: str) -> None:
    params, shared = gpu.params_for(algorithm, {}), Backend("device", "only counted", ranking_devices=(0, 1, 2, 3))
    alone, first = (needed_bytes(params, READ, SERVED, N_RATINGS, one)["device"] for one in (DEVICE, shared))
    assert alone - first == 2 * bytes_of(params, *SERVED)[1] * 3 // 4


@pytest.mark.parametrize(
    ("algorithm", "options"), [("culsh", {"n_factors": 256}), ("culsh-implicit", {"n_negatives": 40})]
)
def test_what_a_batch_takes_grows_with_what_is_summed_and_drawn(algorithm: str, options: dict[str, object]) -> None:
    small, large = gpu.params_for(algorithm, {}), gpu.params_for(algorithm, options)
    of = [needed_bytes(params, READ, (1, 1), 0, DEVICE)["device"] for params in (small, large)]
    assert of[0] < 2**30 < of[1]


def test_item_weights_are_counted_once_and_on_the_host() -> None:
    params = gpu.params_for("ease", {})
    users, items = bytes_of(params, *SERVED)
    needed = needed_bytes(params, READ, SERVED, N_RATINGS, DEVICE)
    assert needed == {"host": sum(bytes_of(params, *READ)) + 4 * READ[1] ** 2 + 2 * users + 2 * items, "device": 0}
    most = needed_bytes(params, (10, 10 * MAX_WEIGHTED), (0, 0), 0, HOST)["host"]
    assert 4 * MAX_WEIGHTED**2 < most < 5 * MAX_WEIGHTED**2
