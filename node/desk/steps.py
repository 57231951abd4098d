"""The steps of the page. Each is a command line: the command itself reads it, its functions carry it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from node.desk.command_line import CommandLine, path_word
from node.desk.folder import Folder
from node.desk.form import Form
from node.desk.views import task_of
from node.desk.work import Step, Tell, Values

if TYPE_CHECKING:
    from node.init.look import Look
    from node.init.options import InitOptions

_SHOWN_PREDICTIONS = 5
_CHOICES = (
    *("target", "target-kind", "person", "peers", "rounds"),
    *("privacy", "epsilon", "come-and-go", "model"),
)
_OF_STATISTICS = ("by", "family", "time", "event")


def init_line(folder: Folder, form: Form, *switches: str) -> CommandLine:
    """Returns the command line of `init` that a form asks for: a task to learn, or for statistics alone."""
    data, statistics = folder.inside(form.text("data"), "data"), form.flag("statistics")
    words = [("--data", str(data))]
    choices = _OF_STATISTICS if statistics else _CHOICES
    words += [(f"--{name}", value) for name in choices if (value := form.text(name, ""))]
    words += [("--formula", each) for each in form.texts("formula") if each and statistics]
    words += [("--leave-out", name) for name in form.texts("leave-out")]
    words += [("--missing", word) for word in form.texts("missing")]
    out = form.text("out", "") or f"{_plain(data)}.toml"
    words.append(("--out", str(folder.new(out, ".toml", "the task's file"))))
    return CommandLine("init", words, (*(("--statistics",) if statistics else ()), *switches))


def look_step(folder: Folder, form: Form) -> Step:
    """How a file is read: its columns and its target. It writes nothing."""
    line = init_line(folder, form)

    def run(tell: Tell) -> Values:
        from node.init.look_by_options import looked  # noqa: PLC0415 - loads pyarrow
        from node.init.options import parse_init  # noqa: PLC0415

        options = parse_init([*line.argv, "--force"], asking=False)
        found = looked(options)
        if options.statistics:
            _check_statistics(options, found)
        return {
            "headline": found.report.headline,
            "columns": [
                {"name": entry.column, "kind": entry.kind, "remark": entry.remark, "doubt": entry.doubt}
                for entry in found.report.entries
            ],
            "remarks": [*found.report.remarks, *([found.warning] if found.warning else [])],
            "rows": found.rows,
        }

    return Step("look", line.command, run)


def _check_statistics(options: InitOptions, found: Look) -> None:
    """Raises ConfigError for statistics that cannot be computed of these columns."""
    from node.init.statistics import statistics_text  # noqa: PLC0415 - loads torch
    from node.stats.plan import plan  # noqa: PLC0415 - loads numpy
    from node.stats.rows import columns_of  # noqa: PLC0415

    asked = task_of(str(options.out), statistics_text(options, found)).statistics
    plan(asked, columns_of(found.schema))


def init_step(folder: Folder, form: Form) -> Step:
    """Proposes a task for a file, and writes it."""
    line = init_line(folder, form, *(("--force",) if form.flag("force") else ()))

    def run(tell: Tell) -> Values:
        from node.init.look_by_options import looked  # noqa: PLC0415 - loads pyarrow
        from node.init.options import parse_init  # noqa: PLC0415

        options = parse_init(line.argv, asking=False)
        tell({"text": f"reading {options.data}"})
        found = looked(options)
        if options.statistics:
            from node.init.statistics import write_statistics  # noqa: PLC0415 - loads torch

            _check_statistics(options, found)
            lines = write_statistics(options, found)
        else:
            tell({"text": "looking for a model and a budget that suit the rows"})
            from node.init.write import write_task  # noqa: PLC0415 - loads torch

            lines = write_task(options, found)
        return {"task": str(options.out), "lines": lines[lines.index("") + 1 : -1]}

    return Step("init", line.command, run)


def check_step(folder: Folder, form: Form) -> Step:
    """Checks a task against one's own data: what would fail in a run."""
    task, data = folder.inside(form.text("task"), "task"), folder.inside(form.text("data"), "data")
    line = CommandLine("check", [path_word(task), ("--data", str(data))])

    def run(tell: Tell) -> Values:
        asked = line.read()
        from node.check.checks import check_all  # noqa: PLC0415 - loads torch

        levels = []
        for finding in check_all(asked.node, asked.met):
            levels.append(finding.level)
            tell({"level": finding.level, "what": finding.what, "text": finding.text, "table": finding.table})
        return {"problems": levels.count("problem"), "warnings": levels.count("warning")}

    return Step("check", line.command, run)


def report_step(folder: Folder, form: Form) -> Step:
    """Writes the report of a run as one HTML file."""
    line = CommandLine("report", [path_word(folder.inside(form.text("run"), "run"))])

    def run(tell: Tell) -> Values:
        options = line.read()
        from node.report.write import NAME, write  # noqa: PLC0415 - loads numpy

        lines = write(options.folders, {}, force=False)
        return {"lines": lines, "file": str(options.folders[0] / NAME)}

    return Step("report", line.command, run)


def predict_step(folder: Folder, form: Form) -> Step:
    """Predicts the rows of a file with the model of a run."""
    run_, data = folder.inside(form.text("run"), "run"), folder.inside(form.text("data"), "data")
    out = folder.new(form.text("out", "") or f"{_plain(data)}-predictions.csv", ".csv", "the output")
    words = [("--model", str(run_)), ("--data", str(data)), ("--out", str(out))]
    line = CommandLine("predict", words)

    def run(tell: Tell) -> Values:
        options = line.read()
        from node.desk.first_rows import first_rows  # noqa: PLC0415 - loads pyarrow
        from node.predict.write import predict  # noqa: PLC0415 - loads torch

        text = predict(options)
        head = first_rows(options.out, _SHOWN_PREDICTIONS)
        lines = text.splitlines()
        return {"lines": lines, "file": str(out), "columns": head.columns, "rows": head.rows}

    return Step("predict", line.command, run)


STEPS: Mapping[str, Callable[[Folder, Form], Step]] = {
    "look": look_step,
    "init": init_step,
    "check": check_step,
    "report": report_step,
    "predict": predict_step,
}


def _plain(data: Path) -> str:
    """Returns the first part of a file's name, with which others can begin."""
    bare = data.name.split(".")[0]
    return (
        "".join(each if each.isalnum() or each in " _-" else "-" for each in bare).strip(" -_")[:60] or "task"
    )
