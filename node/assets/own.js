// What the owner's own rows show: how good a model of them alone is, and the common model class by class. Where
// no epsilon covers that, the view does not hold it: the node tells it to this machine alone.

import { Chart } from "./charts.js";
import { byId, rows, say } from "./elements.js";
import { authorization } from "./stream.js";
import { count, counted, list, metricOf, NONE, percent, valueOf } from "./words.js";

const HERE = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;
const COLOURS = 8;
const A_TENTH = 5; // where the curves have the recall at a tenth of false alarms
const share = (value) => percent(value, 0);
const across = (label) => ({ label, place: (point) => point.x, mark: share });
const unit = () => [0, 1];

export class OwnRows {
  // `heard` is called when the node has told what the view does not hold.
  constructor(heard) {
    this.heard = heard;
    this.secret = null;
    this.line = [{ label: "As it says", colour: "--muted", value: (point) => point.x, dash: [4, 4] }, { label: "As it is", colour: "--series-1", value: (point) => point.y }];
  }

  of(view) {
    return view.own ?? (view.own_here ? this.secret : null);
  }

  show(view) {
    this.#ask(view);
    const own = this.of(view);
    const found = own?.classes;
    byId("own").hidden = !found && !own?.alone && !own?.left_out?.length;
    if (byId("own").hidden) return;
    byId("own-mark").hidden = !own.secret;
    say(byId("own-alone"), own.alone ? beside(own.alone, view.history.at(-1)) : "");
    say(byId("own-left-out"), own.left_out.length ? `The task does not use ${counted(own.left_out.length, "column")} of your file: ${list(own.left_out, 12)}.` : "");
    byId("own-classes").closest(".wide").hidden = !found;
    byId("own-curves").hidden = !found;
    if (!found || this.drawn === found) return;
    this.drawn = found;
    rows(byId("own-classes"), found.classes.map(cells));
    this.#curves(found);
    this.#calibration(found);
  }

  // The node answers on this machine alone, and once for each state that it shows.
  #ask(view) {
    const state = `${view.history.length} ${view.ended}`;
    if (!view.own_here || view.kept || view.folder || this.asked === state || !HERE.test(location.hostname)) return;
    this.asked = state;
    const told = async () => {
      const answer = await fetch("v1/own", { headers: authorization(), cache: "no-store" });
      const secret = answer.ok ? await answer.json() : null;
      if (!secret || this.asked !== state) return; // a later state has been asked for
      this.secret = secret;
      this.heard();
    };
    told().catch(() => {});
  }

  #curves({ classes }) {
    const curves = classes.filter((one) => one.roc.length);
    byId("roc-plot").parentElement.hidden = !curves.length;
    if (!curves.length) return;
    const names = curves.map((one) => one.name);
    if (String(names) !== String(this.names)) {
      this.names = names;
      byId("roc-plot").replaceChildren();
      const series = names.map((label, position) => ({ label, colour: `--series-${(position % COLOURS) + 1}`, value: (point) => point.found[position] }));
      this.roc = new Chart(byId("roc-plot"), series, { mark: share, format: share, range: unit });
    }
    const last = curves[0].roc.length - 1;
    this.roc.show(curves[0].roc.map((_, place) => ({ x: place / last, found: curves.map((one) => one.roc[place]) })), { ...across("False alarms"), rest: A_TENTH });
    byId("roc-plot").setAttribute("aria-label", `Recall at 10 % of false alarms: ${curves.map((one) => `${one.name} ${share(one.roc[A_TENTH])}`).join(", ")}.`);
  }

  #calibration({ calibration, calibrated }) {
    this.calibration ??= new Chart(byId("calibration-plot"), this.line, { mark: share, format: share, range: unit });
    const points = calibration.map((one) => ({ x: one.promised, y: one.happened }));
    this.calibration.show(points, across("It says"));
    const what = calibrated ? `the probability of ${calibrated}` : "the probability of the class that it gives";
    say(byId("calibration-caption"), `The rows held back in tenths by ${what}: the mean of each tenth, and how often it was right.`);
    byId("calibration-plot").setAttribute("aria-label", `Said, and so: ${points.map(({ x, y }) => `${share(x)}, ${share(y)}`).join("; ")}.`);
  }
}

export const aloneTile = (own, metric) => {
  const whole = own.alone.trained === 1 ? "" : ` after ${share(own.alone.trained)} of the training`;
  const mark = own.secret ? "; not covered by epsilon: do not pass on" : "";
  return { term: "Alone", text: metric.text(own.alone.value), more: `the same model on your rows without the others${whole}${mark}` };
};

const beside = (alone, last) => {
  const metric = metricOf(alone);
  const together = last && last.metric === alone.metric ? `${metric.text(valueOf(last))} together, ` : "";
  const constant = last?.baseline == null || last.metric !== alone.metric ? "" : `, ${metric.text(last.baseline)} by a constant answer`;
  const whole = alone.trained === 1 ? "" : ` after ${share(alone.trained)} of the training`;
  return `${metric.name}: ${together}${metric.text(alone.value)} alone${whole}${constant}. Alone is the same model, trained on your rows without the others.`;
};

const cells = (one) => ({
  cells: [one.name, count(one.trained_on), count(one.held_back), one.recall == null ? NONE : percent(one.recall), count(one.given)],
});
