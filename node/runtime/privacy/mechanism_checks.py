"""What a mechanism's guarantee needs of the task, whatever name or import path led to the mechanism.

`node.task.combinations` refuses the same for the built-in names when it reads a task, before anything is
imported; here the mechanism exists, and its class decides.
"""

from __future__ import annotations

from mechanisms.mechanism import Mechanism
from mechanisms.updates.distributed import DistributedDP
from mechanisms.updates.shown_radius import shows_radius
from node.system.errors import ConfigError, shown
from node.task.combinations import radius_is_not_shown, radius_is_shown, refuse_weights_of_rows
from node.task.sections import Task
from node.task.shared_noise_keys import DISTRIBUTED


def check_mechanism(task: Task, mechanism: Mechanism) -> None:
    """Raises ConfigError for keys that the mechanism's guarantee does not cover, or that have no effect."""
    section, shows = task.privacy, shows_radius(mechanism)
    if isinstance(mechanism, DistributedDP) and task.step_plan is None:
        raise ConfigError(
            f"privacy.mechanism = {shown(section.mechanism)} is refused: members share its noise, so all its "
            f"keys are checked together; name it {DISTRIBUTED!r}"
        )
    if shows and not section.public_radius:
        raise radius_is_shown(section)
    if section.public_radius and not shows:
        raise radius_is_not_shown()
    if mechanism.gradient is not None:
        refuse_weights_of_rows(task)
