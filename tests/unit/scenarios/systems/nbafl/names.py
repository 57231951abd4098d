"""The names of the arms of scenario `nbafl`, as stored results have them."""

NO_NOISE, CLIP_ONLY = "no-noise", "federatedscope-clip-only"
TEST, TEST_SILENT = "federatedscope-test", "federatedscope-test-sizes-unknown"


def table_arm(way: str, epsilon: float, constant: float) -> str:
    """A cell of the table."""
    return f"{way}-eps{epsilon:g}-c{constant:g}"


def mnist_arm(epsilon: float | None, clients: int = 50, rounds: int = 25) -> str:
    """An arm on MNIST; None: without noise."""
    varied = f"-{clients}clients" if clients != 50 else ""
    noise = "no-noise" if epsilon is None else f"eps{epsilon:g}"
    return f"mnist{varied}-{noise}" + (f"-{rounds}rounds" if rounds != 25 else "")
