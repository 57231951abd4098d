"""FedProx: plain averaging whose clients have a proximal term."""

import numpy as np

from mechanisms.servers.fedprox import FedProx
from mechanisms.servers.server import FedAvg, Federation
from tests.unit.mechanisms.settings import uploads_of, vector, words

FEDERATION = Federation((30, 10), 5, (2,))


def test_the_server_is_that_of_federated_averaging_and_mu_is_what_clients_add_to_their_loss() -> None:
    server, plain = FedProx(FEDERATION, 2, 0.5), FedAvg(FEDERATION, 2)
    uploads = uploads_of([vector(1, 0), vector(0, 4)], (30, 10))
    ours, theirs = (one.combine(vector(0, 0), None, uploads, words())[0] for one in (server, plain))
    assert np.array_equal(ours, theirs)
    assert np.array_equal(*(one.sample(2, np.random.default_rng(4)) for one in (server, plain)))
    assert (server.proximal, server.grad_clip, server.guarantee) == (0.5, None, None)
    assert server.figures == {"proximal mu": 0.5}
    assert "without noise" in server.protects
