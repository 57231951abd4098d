"""What the page shows of the folder: its swarms, its tasks and its data, as values for JSON."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path

from node.desk.folder import Folder
from node.desk.task_lines import MOST_BYTES, lines_of
from node.observe.views import NodeView
from node.storage.regular_files import check_regular
from node.system.errors import ConfigError, counted, one_line, reason, shown
from node.task.data_schema import ArraySchema, ClassTarget, TableSchema
from node.task.load import read_task
from node.task.sections import ADDITIVE, Task
from node.task.shared_noise_keys import DISTRIBUTED
from node.task.statistics import StatisticsSection, SurvivalAsked
from node.task.table_models import SAME_MEMBERS, TREES, is_exact, opened

_MODELS = {
    ADDITIVE: "additive: a curve for each column, which can be read",
    TREES: "boosted trees",
    "node.models:Linear": "a linear model",
    "node.models:MLP": "a network with a hidden layer",
    "node.models:ConvNet": "a small convolutional network",
    "node.models:Scattering": "a linear model on scattering features, which are not trained",
}
_FEW = 5


def swarm_view(name: str, view: NodeView) -> dict[str, object]:
    """Returns a line about a run: `name` is its folder."""
    state = "over" if view.ended else "silent" if view.silent_since is not None else "runs"
    state = "unfinished" if view.is_unfinished else state
    return {
        "folder": name,
        "task": view.task,
        "round": view.round,
        "rounds": view.rounds,
        "done": _done(view),
        "state": state,
        "model_bytes": view.model_bytes,
    }


def _done(view: NodeView) -> str:
    """Returns how many rounds of a run are over, or how many sums of a job."""
    if view.exact:
        return counted(view.generation, "sum")
    return f"{view.round} of {view.rounds} rounds"


def unreadable_view(name: str, why: str) -> dict[str, object]:
    """Returns the line about a run whose files cannot be read."""
    return _without_rounds(name, why, "unreadable")


def standing_line(name: str, standing: str) -> dict[str, object]:
    """Returns the line about a swarm that has not learned yet (node.desk.swarm_views.standing_of)."""
    return _without_rounds(name, "", standing)


def _without_rounds(name: str, task: str, state: str) -> dict[str, object]:
    rounds = {"round": 0, "rounds": 0, "done": ""}
    return {"folder": name, "task": task, **rounds, "state": state, "model_bytes": None}


def files_view(folder: Folder) -> dict[str, object]:
    """Returns the folder's tasks and data."""
    return {
        "folder": str(folder.path),
        "tasks": folder.tasks(),
        "data": [asdict(file) for file in folder.data()],
    }


def task_text(path: Path) -> str:
    """Returns the text of a task file. Raises ConfigError if it is too large or no text."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ConfigError(
                f"task {shown(path.name)} has more than {MOST_BYTES} bytes; allowed: at most that"
            )
        return content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"task {shown(path.name)} cannot be read: {reason(error)}") from error


def task_of(name: str, text: str) -> Task:
    """Returns the task that a file's text describes. Raises ConfigError."""
    try:
        return read_task(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"task {shown(name)} is no TOML ({one_line(str(error))}); mend it") from error


def task_view(name: str, text: str) -> dict[str, object]:
    """Returns a task in sentences, and its file line by line. Raises ConfigError if it is no task."""
    task = task_of(name, text)
    lines = lines_of(text)
    return {
        "file": name,
        "name": task.task.name,
        "sentences": [
            *(_lessons(task) if task.learns else _statistics(task.statistics)),
            {"term": "Privacy", "text": _privacy(task)},
        ],
        "marked": sum(line.marked for line in lines),
        "lines": [asdict(line) for line in lines],
    }


def _lessons(task: Task) -> list[dict[str, str]]:
    """Returns what is learned, by which model and how long; of exact sums also what they open."""
    what = [
        {"term": "Learns", "text": _learns(task)},
        {"term": "Model", "text": _MODELS.get(task.model.cls, task.model.learner or task.model.cls)},
    ]
    if not is_exact(task):
        return [*what, {"term": "Rounds", "text": f"{task.train.rounds}: so often all learn together"}]
    return [
        *what,
        {"term": "Opened", "text": opened(task)},
        {"term": "Members", "text": SAME_MEMBERS},
    ]


def _statistics(asked: StatisticsSection) -> list[dict[str, str]]:
    """Returns what is computed of all members' rows, and who takes part."""
    groups = "" if asked.by is None else f" by {asked.by}"
    said = {
        "Computes": f"table one{groups}{', a column for each member too' if asked.per_site else ''}",
        "Cross tables": "; ".join(" and ".join(pair) for pair in asked.tables),
        "Regressions": "; ".join(f"{each.formula} ({each.family})" for each in asked.models),
        "Survival": "; ".join(map(_survival, asked.survival)),
        "Rows": f"a member with fewer than {asked.least_rows} takes no part",
    }
    return [{"term": term, "text": text} for term, text in said.items() if text]


def _survival(asked: SurvivalAsked) -> str:
    by = "" if asked.by is None else f" by {asked.by}"
    cox = f", with a Cox model of {', '.join(asked.cox)}" if asked.cox else ""
    return f"{asked.event} after {asked.time}{by}, in steps of {asked.grid:g}{cox}"


def _learns(task: Task) -> str:
    schema = task.data.schema
    if schema is None:
        return "what the task's own data say"
    target = schema.target
    what = f"{target.name}" if target.name else "the class"
    if isinstance(target, ClassTarget):
        more = f" and {len(target.values) - _FEW} more" if len(target.values) > _FEW else ""
        what += f" ({', '.join(map(str, target.values[:_FEW]))}{more})"
    match schema:
        case TableSchema():
            return f"{what} from {counted(len(schema.columns), 'column')}"
        case ArraySchema(kind="images"):
            return f"{what} from images, {' x '.join(map(str, schema.shape))}"
    return f"{what} from {' x '.join(map(str, schema.shape))} numbers"


def _privacy(task: Task) -> str:
    section, unit = task.privacy, task.unit
    if section.mechanism == "none" and not task.learns:
        return "none: the program of each member sees exact totals; all the others can compute yours"
    if section.mechanism == "none":
        hidden = "each member's numbers" if is_exact(task) else "single updates"
        return f"none: sums hide {hidden}, but nothing bounds what the model remembers of a row"
    bounds = f"{section.mechanism}: epsilon {section.epsilon:g} bounds what anybody can tell about any one"
    smaller = "Smaller is more private, and learns less"
    if section.mechanism == DISTRIBUTED:
        honest = section.honest or 1
        they = "adds noise and tells" if honest == 1 else "add noise and tell"
        whom = f"at least {counted(honest, 'other member')} {they} nobody"
        return f"{bounds} {unit} of yours over all rounds, as long as {whom}. {smaller}"
    if section.noises_rows:
        return f"{bounds} {unit} of yours over all rounds, whatever the others do. {smaller}"
    return f"{bounds} member over all rounds. {smaller}"
