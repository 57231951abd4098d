"""The seeds of a result as a Parquet file: a row for each arm and seed.

    arm | configuration | names | values

`configuration` is the arm's, as JSON. `values` has a field for each name that any seed has; `names` says
which of them this seed has, in its order. The rest of the result is text. Whole numbers that share a field
with decimals become decimals, which are equal to them.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scenarios.frame.spec import Json

BROKEN = (pa.ArrowException, OSError, LookupError, ValueError, TypeError, AttributeError)
"""What `pack` raises for a result without arms and seeds, and `unpack` for bytes that are no seeds."""
_COLUMNS = ("arm", "configuration", "names", "values")


def pack(result: Json) -> tuple[Json, bytes]:
    """A result without its seeds and the arms' configuration, and the file of these."""
    configured, arms = result["configuration"]["arms"], result["arms"]
    rows = [(arm, json.dumps(configured[arm]), list(one), one) for arm in arms for one in arms[arm]["seeds"]]
    columns = map(pa.array, zip(*rows, strict=True))
    rest = {
        **result,
        "configuration": _without("arms", result["configuration"]),
        "arms": {arm: _without("seeds", own) for arm, own in arms.items()},
    }
    return rest, _file(pa.table(dict(zip(_COLUMNS, columns, strict=True))))


def unpack(rest: Json, file: bytes) -> dict[str, Any]:
    """The inverse of `pack`."""
    table = pq.read_table(pa.BufferReader(file))
    seeds: dict[str, list[Json]] = {arm: [] for arm in rest["arms"]}
    configured: dict[str, Json] = {}
    for arm, own, names, values in zip(*(table[name].to_pylist() for name in _COLUMNS), strict=True):
        configured[arm] = json.loads(own)
        seeds[arm].append({name: values[name] for name in names})
    return {
        **rest,
        "configuration": {**rest["configuration"], "arms": configured},
        "arms": {arm: {**own, "seeds": seeds[arm]} for arm, own in rest["arms"].items()},
    }


def _without(name: str, values: Json) -> Json:
    return {key: value for key, value in values.items() if key != name}


def _file(table: pa.Table) -> bytes:
    """The same table gives the same bytes, with the same pyarrow."""
    stream = pa.BufferOutputStream()
    pq.write_table(table, stream, compression="zstd", compression_level=19, use_dictionary=False)
    return bytes(stream.getvalue())
