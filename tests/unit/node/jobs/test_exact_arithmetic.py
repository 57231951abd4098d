"""Arithmetic whose bits every machine computes: its values, and that no other is used where bases follow."""

import ast
import inspect
import math
import textwrap

import numpy as np
import pytest

from node.jobs import exact_arithmetic, limbs
from node.jobs.exact_arithmetic import factorise, log, symmetric, total
from node.jobs.statistics import newton
from node.jobs.statistics.counts import CountsPart
from node.jobs.statistics.glm import Glm
from node.jobs.statistics.models import ModelPart
from node.jobs.statistics.survival import Cox, SurvivalPart

RNG = np.random.default_rng(5)
_DIFFER = {"sum", "mean", "dot", "einsum", "cumsum", "prod", "cumprod", "reduce", "exp", "log", "power"}


def positive(size: int) -> np.ndarray:
    rows = RNG.normal(size=(3 * size, size))
    return rows.T @ rows


@pytest.mark.parametrize("size", [1, 2, 7, 60])
def test_factors_solve_and_invert(size):
    matrix, right = positive(size), RNG.normal(size=size)
    factors = factorise(matrix, 1e-10)
    assert factors is not None
    assert factors.solve(right) == pytest.approx(np.linalg.solve(matrix, right), rel=1e-9, abs=1e-12)
    inverse, half = np.linalg.inv(matrix), size // 2
    blocks = factors.inverse_blocks([slice(0, half), slice(half, size)])
    assert blocks[0] == pytest.approx(inverse[:half, :half], rel=1e-9, abs=1e-12)
    assert blocks[1] == pytest.approx(inverse[half:, half:], rel=1e-9, abs=1e-12)
    diagonal = np.concatenate(factors.inverse_blocks([slice(place, place + 1) for place in range(size)]))
    assert diagonal.ravel() == pytest.approx(np.diag(inverse), rel=1e-9)


def test_a_column_that_others_make_up_has_no_factors_at_any_scale():
    columns = RNG.normal(size=(50, 3)) * [1.0, 1e-6, 1e6]
    columns = np.column_stack([columns, columns[:, 0] + columns[:, 1]])
    assert factorise(columns.T @ columns, 1e-10) is None
    assert factorise(columns[:, :3].T @ columns[:, :3], 1e-10) is not None
    assert factorise(np.zeros((2, 2)), 1e-10) is None


def test_logarithms_totals_and_triangles():
    values = np.concatenate(
        [2.0 ** RNG.uniform(-300, 300, 2000), 1 + RNG.normal(size=500) * 1e-9, [1.0, 5e-324]]
    )
    expected = [math.log(value) for value in values]
    assert log(values) == pytest.approx(expected, rel=2e-15, abs=1e-15)
    for count in (0, 1, 2, 3, 64, 1001):
        numbers = RNG.normal(size=(count, 2))
        assert total(numbers) == pytest.approx([math.fsum(column) for column in numbers.T], abs=1e-12)
    matrix = positive(4)
    assert (symmetric(matrix[np.triu_indices(4)], 4) == matrix).all()


def in_doubt(source: str) -> set[str]:
    """Returns what of `source` machines may compute otherwise: matrix products, sums of floats, exp, log."""
    found = set()
    for item in ast.walk(ast.parse(source)):
        if isinstance(item, ast.BinOp) and isinstance(item.op, ast.MatMult):
            found.add("@")
        if isinstance(item, ast.Attribute) and item.attr == "linalg":
            found.add("linalg")
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and item.func.attr in _DIFFER:
            types = [ast.unparse(word.value) for word in item.keywords if word.arg == "dtype"]
            found |= set() if types == ["np.int64"] else {item.func.attr}
    return found


def sources() -> dict[str, str]:
    """Returns the code by which a base follows from a sum."""
    code = {module.__name__: inspect.getsource(module) for module in (exact_arithmetic, limbs, newton)}
    names = ("following", "is_over", "_first_places", "_means", "_begun", "curve", "start", "unit")
    for cls in (CountsPart, ModelPart, SurvivalPart, Glm, Cox):
        for name in names:
            item = vars(cls).get(name)
            if item is not None and not isinstance(item, float):
                text = inspect.getsource(item.fget if isinstance(item, property) else item)
                code[f"{cls.__name__}.{name}"] = textwrap.dedent(text)
    return code


def test_nothing_that_machines_may_compute_otherwise_decides_a_base():
    code = sources()
    assert {"CountsPart._means", "ModelPart._begun", "Cox.curve", "Glm.start"} <= set(code)
    assert {name: doubts for name, text in code.items() if (doubts := in_doubt(text))} == {}


@pytest.mark.parametrize(
    "planted",
    ["v.sum()", "np.sum(v)", "v @ v", "np.exp(v)", "np.linalg.inv(v)", "v.cumsum(dtype=np.float64)"],
)
def test_a_planted_sum_of_floats_is_found(planted):
    assert in_doubt(f"def following(v):\n    return {planted}")
