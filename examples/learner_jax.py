"""JAX: five peers each learn handwritten digits by gradient steps of their own, on a pytree of parameters.

python examples/learner_jax.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

from node import Swarm
from node.learners.jax import JaxLearner

TASK = {"task": {"name": "digits-jax"}, "train": {"rounds": 5}}
FIRST = {"w": 0.1 * jax.random.normal(jax.random.key(0), (64, 10)), "b": jnp.zeros(10)}


def loss(params, x, y):  # noqa: ANN001, ANN201 - as one writes it in a notebook
    """Mean cross-entropy."""
    return -jax.nn.log_softmax(x @ params["w"] + params["b"])[jnp.arange(len(y)), y].mean()


def learner(x: jax.Array, y: jax.Array) -> JaxLearner:
    """Fifty steps a round on all but the first sixty rows, which measure."""
    step = jax.jit(lambda p: jax.tree.map(lambda a, g: a - 0.5 * g, p, jax.grad(loss)(p, x[60:], y[60:])))
    right = jax.jit(lambda p: ((x[:60] @ p["w"] + p["b"]).argmax(1) == y[:60]).mean())
    train = lambda params, _: jax.lax.fori_loop(0, 50, lambda _, p: step(p), params)  # noqa: E731
    return JaxLearner(FIRST, train, lambda params: {"accuracy": right(params)})


x, y = map(jnp.asarray, load_digits(return_X_y=True))
parts = np.array_split(np.random.default_rng(0).permutation(len(x)), 5)
print(Swarm.local(5, TASK, learners=[learner(x[own] / 16, y[own]) for own in parts]).run())
