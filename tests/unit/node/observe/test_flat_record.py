"""A record as one level of names."""

from node.observe.flat_record import flat, numbers

RECORD = {
    "round": 3,
    "reason": None,
    "ok": True,
    "missing": ["ab", "cd"],
    "metrics": {"auc": 0.5, "log-loss": None},
    "phases": {"sums": {"s": 1.5}},
}


def test_names_are_joined_by_dots_lists_are_one_text_and_only_numbers_are_numbers():
    of_dicts = {"metrics.auc": 0.5, "metrics.log-loss": None, "phases.sums.s": 1.5}
    assert flat(RECORD) == {"round": 3, "reason": None, "ok": True, "missing": "ab cd", **of_dicts}
    assert numbers(RECORD) == {"round": 3.0, "metrics.auc": 0.5, "phases.sums.s": 1.5}
