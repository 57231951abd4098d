"""The built-in mechanisms by their names in task files and scenarios."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mechanisms.mechanism import Mechanism, Setting, Unprotected
from mechanisms.servers.adaptive_clip import adaptive_clip
from mechanisms.servers.dp_fedavg import dp_fedavg, dp_fedavg_within
from mechanisms.servers.dp_fedavg_book import BookDPFedAvg
from mechanisms.servers.fedprox import FedProx
from mechanisms.servers.label_server import LabelsOnce
from mechanisms.servers.nbafl import FederatedScopeNbAFL, PaperNbAFL
from mechanisms.servers.row_noise import row_noise
from mechanisms.servers.rpfl_server import rpfl_of
from mechanisms.servers.scaffold import Scaffold
from mechanisms.servers.server import FedAvg, ServerMechanism
from mechanisms.servers.server_optimizers import fedadam, fedavgm, fedyogi
from mechanisms.updates.distributed import distributed_dp
from mechanisms.updates.linear_classic import linear_classic
from mechanisms.updates.local import aldp, ldp
from mechanisms.updates.record import dp_sgd

Maker = Callable[[Setting], Mechanism]
CALIBRATIONS = ("exact", "linear-classic")


def _none(setting: Setting) -> Mechanism:
    return Unprotected()


def _ldp(setting: Setting) -> Mechanism:
    return ldp(setting) if _is_exact(setting) else linear_classic("ldp", 0, setting)


def _aldp(setting: Setting) -> Mechanism:
    return aldp(setting) if _is_exact(setting) else linear_classic("aldp", setting.window, setting)


def _dp_sgd(setting: Setting) -> Mechanism:
    _check_exact(setting, "dp-sgd")
    return dp_sgd(setting)


def _distributed_dp_sgd(setting: Setting) -> Mechanism:
    _check_exact(setting, "distributed-dp-sgd")
    return distributed_dp(setting)


def _check_exact(setting: Setting, name: str) -> None:
    if not _is_exact(setting):
        raise ValueError(f"calibration = {setting.calibration!r} is not allowed with {name!r}: 'exact'")


def _is_exact(setting: Setting) -> bool:
    if setting.calibration not in CALIBRATIONS:
        allowed = ", ".join(map(repr, CALIBRATIONS))
        raise ValueError(f"calibration = {setting.calibration!r} is not allowed: {allowed}")
    return setting.calibration == "exact"


MECHANISMS: Mapping[str, Maker] = {
    "none": _none,
    "ldp": _ldp,
    "aldp": _aldp,
    "dp-sgd": _dp_sgd,
    "distributed-dp-sgd": _distributed_dp_sgd,
}
"""The makers of mechanisms by name. A maker raises ValueError for keys that do not go together."""

_NAMES = ((ldp, "ldp"), (aldp, "aldp"), (dp_sgd, "dp-sgd"), (distributed_dp, "distributed-dp-sgd"))


def maker_of(found: Maker) -> Maker:
    """Returns the maker for `found`, which a task names by its import path.

    If `found` makes a built-in mechanism, it is the maker of that name: so each key of the task has the same
    effect, or is refused alike, under the name and under the path. Else it is `found` itself.
    """
    return next((MECHANISMS[name] for made, name in _NAMES if made is found), found)


SERVER_MECHANISMS: Mapping[str, Callable[..., ServerMechanism]] = {
    "fedavg": FedAvg,
    "fedavgm": fedavgm,
    "fedadam": fedadam,
    "fedyogi": fedyogi,
    "fedprox": FedProx,
    "scaffold": Scaffold,
    "nbafl": PaperNbAFL,
    "nbafl-federatedscope": FederatedScopeNbAFL,
    "dp-fedavg": dp_fedavg,
    "dp-fedavg-within": dp_fedavg_within,
    "dp-fedavg-adaptive": adaptive_clip,
    "dp-fedavg-book": BookDPFedAvg,
    "label-dp": LabelsOnce,
    "row-noise": row_noise,
    "rpfl": rpfl_of,
}
"""The makers of server-side mechanisms by name, which take a `Federation` and keyword arguments."""
