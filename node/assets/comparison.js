// Several runs side by side, read from their folders.

import { Chart } from "./charts.js";
import { byId, rows, say } from "./elements.js";
import { bytes, count, counted, decimals, figure, fixed, NONE, ofDate, seconds, shown } from "./words.js";

const SHORT = 3;
const COLOURS = 8;

export const title = (view) => {
  const tasks = [...new Set(view.runs.map((run) => run.task))];
  return `${count(view.runs.length)} runs of ${tasks.join(", ")}`;
};

export const identity = () => "";

export class ComparisonPage {
  show(view) {
    const names = distinct(view.runs.map((run) => run.folder));
    this.charts ??= this.#charts(view, names);
    const across = merged(view.runs);
    for (const [name, chart] of Object.entries(this.charts)) {
      chart.show(across);
      byId(`${name}-plot`).setAttribute("aria-label", told(view.runs, names, (run) => run[name], FORMATS[name](view)));
    }
    say(byId("value-title"), capital(shown(metricOf(view)).name));
    say(byId("value-caption"), `Of the common model of each run, on the rows that the run sets aside. ${comparable(view)}`);
    rows(byId("runs-table"), view.runs.map((run, position) => ({ cells: cells(run, names[position], position) })));
    say(byId("same-model"), sameModel(view.runs, names));
  }

  tick() {}

  news() {
    return "";
  }

  #charts(view, names) {
    const has = (name) => view.runs.some((run) => run.points.some((point) => point[name] != null));
    const wanted = ["value", "loss", "epsilon"].filter((name) => name !== "epsilon" || has(name));
    byId("epsilon-figure").hidden = !wanted.includes("epsilon");
    return Object.fromEntries(wanted.map((name) => [name, this.#chart(name, view, names)]));
  }

  #chart(name, view, names) {
    const format = FORMATS[name](view);
    const series = names.map((label, position) => ({ label, colour: colour(position), value: (point) => point.runs[position]?.[name] ?? null }));
    const mark = name === "value" ? shown(metricOf(view)).mark : (value, step) => fixed(value, decimals(step));
    return new Chart(byId(`${name}-plot`), series, { mark, format });
  }
}

const FORMATS = {
  value: (view) => shown(metricOf(view)).format,
  loss: () => fixed,
  epsilon: () => (value) => figure(value, SHORT),
};

const colour = (position) => `--series-${(position % COLOURS) + 1}`;

const metricOf = (view) => {
  const metrics = new Set(view.runs.map((run) => run.metric));
  return metrics.size === 1 ? [...metrics][0] : "headline figure";
};

const comparable = (view) => {
  const tasks = new Set(view.runs.map((run) => run.task)).size;
  const own = view.runs.some((run) => run.accuracy_of === "validation");
  if (tasks > 1) return "The runs have different tasks: their figures are not comparable.";
  return own ? "These are rows of each owner: the figures of two owners differ even for one model." : "";
};

const capital = (text) => `${text[0].toUpperCase()}${text.slice(1)}`;

// The points of all runs, by round: { round, runs: [point or undefined] }.
const merged = (runs) => {
  const found = new Map();
  runs.forEach((run, position) => {
    for (const point of run.points) {
      if (!found.has(point.round)) found.set(point.round, { round: point.round, runs: [] });
      found.get(point.round).runs[position] = point;
    }
  });
  return [...found.values()].sort((one, other) => one.round - other.round);
};

// The folders' names without what they all begin with.
const distinct = (folders) => {
  const parts = folders.map((folder) => folder.split("/"));
  let common = 0;
  const least = Math.min(...parts.map((part) => part.length)) - 1;
  while (common < least && parts.every((part) => part[common] === parts[0][common])) common += 1;
  return parts.map((part) => part.slice(common).join("/"));
};

const told = (runs, names, value, format) =>
  `${runs.map((run, position) => `${names[position]}: ${value(run) == null ? "no round yet" : format(value(run))}`).join("; ")}. The same figures stand in the table of runs.`;

const state = (run) => {
  if (run.ended) return run.over ? "over" : run.sums == null ? "stopped" : "UNFINISHED";
  return run.silent_since == null ? "runs" : `silent since ${ofDate(run.silent_since)}`;
};

const cells = (run, name, position) => [
  { text: name, className: "text run", link: run.path, swatch: colour(position) },
  { text: `${run.sums == null ? `${count(run.round)} of ${count(run.rounds)}` : counted(run.sums, "sum")}, ${state(run)}`, className: "text" },
  count(run.aggregated),
  count(run.fallbacks),
  run.value == null ? "none yet" : `${shown(run.metric).format(run.value)}${run.metric === "accuracy" ? "" : ` ${shown(run.metric).name}`}`,
  fixed(run.loss),
  run.mechanism == null ? "no privacy" : run.epsilon == null ? NONE : figure(run.epsilon, SHORT),
  bytes(run.bytes_sent),
  seconds(run.train_s),
  seconds(run.aggregate_s),
  { text: run.base_digest.slice(0, 8) || NONE, className: "mono" },
];

const listed = (found) => `${found.slice(0, -1).join(", ")} and ${found[found.length - 1]}`;

const sameModel = (runs, names) => {
  const byDigest = new Map();
  runs.forEach((run, position) => byDigest.set(run.base_digest, [...(byDigest.get(run.base_digest) ?? []), names[position]]));
  const same = [...byDigest.entries()].filter(([digest, found]) => digest && found.length > 1).map(([, found]) => listed(found));
  return same.length ? `The same model, bit for bit: ${same.join("; ")}.` : "Each run has another model.";
};
