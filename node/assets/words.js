// Numbers, times and the node's own terms, for people.

export const NONE = "–";

export const percent = (value, digits = 1) =>
  value == null ? NONE : `${(100 * value).toFixed(digits)} %`;

// The metrics of a model: their names, how a value is written at an axis and in words, what reaches the baseline.
const share = { axis: (value, step) => percent(value, decimals(100 * step)), text: (value) => percent(value), isShare: true };
const number = { axis: (value, step) => fixed(value, decimals(step)), text: (value) => (value == null ? NONE : value.toFixed(3)) };
const METRICS = {
  accuracy: { ...share, name: "Accuracy", constant: "Always the largest class" },
  "balanced-accuracy": { ...share, name: "Balanced accuracy", constant: "Guessing" },
  auc: { ...number, name: "AUC", constant: "Guessing" },
  r2: { ...number, name: "R²", constant: "Always the mean" },
  mae: { ...number, name: "MAE", constant: "Always the median", text: (value) => figure(value) },
  deviance: { ...number, name: "Poisson deviance", constant: "Always the mean", text: (value) => figure(value) },
};

// What stands in place of a figure where no rows, or none of a class, are held back.
export const TOO_FEW = "too few rows to validate";

// A learner of another framework names its metrics itself.
export const metricOf = (round) =>
  METRICS[round?.metric] ?? (round?.metric ? { ...number, name: round.metric, constant: "" } : METRICS.accuracy);
export const valueOf = (round) => round.value;

// The metric of all members' rows, for the model that a round began with, where it is the round's own one; in words
// beside mine for the same model.
export const ofAll = (round) => (round.swarm?.metric === round.metric ? round.swarm?.value ?? null : null);
export const ofAllText = ({ swarm }) => {
  const metric = metricOf(swarm);
  const about = swarm.noised ? "about " : "";
  const off = swarm.error == null ? "" : `, noise ±${metric.text(swarm.error)}`;
  return { text: about + metric.text(swarm.value), more: `${inSentence(metric)} on ${about}${counted(swarm.rows, swarm.unit ?? "row")} of ${counted(swarm.peers, "member")}${off}; mine ${metric.text(swarm.mine)}` };
};
export const inSentence = (metric) => (metric.isShare ? metric.name.toLowerCase() : metric.name);

// The metric beside the headline, such as the balanced accuracy beside an AUC; "" if there is none.
export const besideText = (round) => {
  const beside = METRICS[round.beside_metric];
  return beside && round.beside != null ? `${inSentence(beside)} ${beside.text(round.beside)}` : "";
};

export const figure = (value, digits = 4) =>
  value == null ? NONE : value === 0 ? "0" : String(Number(value.toPrecision(digits)));

export const fixed = (value, digits = 3) => (value == null ? NONE : value.toFixed(digits));

export const count = (value) => (value == null ? NONE : value.toLocaleString("en"));

export const counted = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export const seconds = (value) => {
  if (value == null) return NONE;
  if (value < 10) return `${value.toFixed(2)} s`;
  if (value < 120) return `${value.toFixed(0)} s`;
  return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
};

export const bytes = (value) => {
  if (value == null) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let power = 0;
  while (value >= 1000 && power < units.length - 1) {
    value /= 1000;
    power += 1;
  }
  return `${power ? value.toPrecision(3) : value} ${units[power]}`;
};

const OF_DAY = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const ofDay = (unix) => OF_DAY.format(new Date(unix * 1000));

const OF_DATE = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

export const ofDate = (unix) => OF_DATE.format(new Date(unix * 1000));

// Of a member that is reached by its key: which relay leads to it, or since when and why it is missed.
export const noteOf = ({ relay, since, why }) => {
  if (relay) return `by the relay ${relay}`;
  return since == null ? "not seen since this node started" : `away since ${ofDate(since)}: ${why}`;
};

// The fewest decimals with which numbers that are `step` apart differ.
export const decimals = (step) => {
  for (let digits = 0; digits < 6; digits += 1) {
    const scaled = step * 10 ** digits;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6 * scaled) return digits;
  }
  return 6;
};

// How a metric is written: its name, its values, and the marks of an axis that are `step` apart.
export const shown = (metric) => {
  const { name, text, axis } = METRICS[metric] ?? { ...METRICS.accuracy, name: metric };
  return { name, format: text, mark: axis };
};

export const total = (byPhase) => Object.values(byPhase).reduce((sum, value) => sum + value, 0);

// What a round goes through, in its order. `idle` is what the node calls the time that it trains.
export const STEPS = [["idle", "Train"], ["group", "Find a group"], ["shares", "Exchange shares"], ["sums", "Exchange sums"]];

export const PHASES = {
  joining: "Meeting the others",
  idle: "Training on this node's own data",
  group: "Looking for a group",
  shares: "Exchanging shares",
  sums: "Exchanging sums",
  following: "Following the others: the privacy budget is spent",
  "catching up": "Fetching the agreed model",
  closing: "Making sure that everyone has the last model",
};

// The same in a job whose sums all have the same members: each of them adds up something of its own rows.
export const JOB_STEPS = STEPS.map(([phase, name]) => [phase, phase === "idle" ? "Add up own rows" : name]);
export const JOB_PHASES = { ...PHASES, idle: "Adding up this node's own rows", following: "This node came after the first sum: it gets the result, and its rows count from the next job on" };

const REASONS = {
  "group-timeout": "no group came together in time",
  "shares-timeout": "shares were missing",
  "sums-timeout": "sums were missing",
  "joins-timeout": "the session did not begin",
  "masks-timeout": "too many fell silent",
  "contributors-differ": "the members did not agree on who took part",
  "wrong-count": "a masked vector was wrong",
  "wrong-weights": "the weights were wrong",
  caught: "somebody lied and is banned",
  "swarm-finished": "the run was over",
  outdated: "a newer model came",
};

// The steps of a round, and how many of its sums failed.
const stepsIn = (round, missing) => {
  const failed = round.steps_failed ? `, ${counted(round.steps_failed, "sum")} failed${missing}` : "";
  return `${counted(round.steps ?? 0, "step")}${failed}`;
};

// A sum of a job: what it was for, or why it did not come.
const ofSum = (round, missing) => {
  if (round.reason === "late-member") return `${capital(round.purpose)}: by the others; this node came after the first sum`;
  if (round.reason != null) return `No sum (${round.purpose}): ${REASONS[round.reason] ?? round.reason}${missing}`;
  const several = round.steps > 1 ? `, ${counted(round.steps, "sum")}` : "";
  const failed = round.steps_failed ? `, after ${counted(round.steps_failed, "sum")} that failed${missing}` : "";
  return `${capital(round.purpose)}${several}${failed}`;
};

export const capital = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}` : "");

// `bySteps`: whether a round is made of steps that all members take; then a node has no update of its own.
export const outcome = (round, bySteps = false) => {
  const missing = round.missing.length ? `; missing ${round.missing.map((key) => round.names?.[key] ?? key.slice(0, 8)).join(", ")}` : "";
  if (round.purpose != null) return ofSum(round, missing);
  if (round.reason === "all-spent") return "No more sums: too few have any privacy budget left";
  if (FOLLOWED.has(round.reason)) return "Followed the others";
  if (round.rolled_back) return "Rolled back";
  if (round.without?.length) return `Aggregated without ${list(round.without)}, gone for good`;
  if (round.reason == null) return bySteps ? stepsIn(round, missing) : "Aggregated";
  const again = round.alone > 1 ? `; ${count(round.alone)} rounds alone in a row` : "";
  return `${bySteps ? "No step" : "Own update"}: ${REASONS[round.reason] ?? round.reason}${missing}${again}`;
};

const FOLLOWED = new Set(["budget-spent", "late-member", "all-spent"]);

export const kindOf = (round) =>
  round.outcome === "aggregated" ? "aggregated" : FOLLOWED.has(round.reason) ? "followed" : "alone";

// How many rounds ended how, in words; those that there are none of, but for the first two, are left out.
export const outcomes = (rounds) => {
  const found = { aggregated: 0, alone: 0, followed: 0 };
  for (const round of rounds) found[kindOf(round)] += 1;
  const followed = found.followed ? `, ${count(found.followed)} followed` : "";
  const isJob = rounds.some((round) => round.purpose != null);
  return { aggregated: found.aggregated, rest: `${count(found.alone)} ${isJob ? "did not come" : "on its own"}${followed}` };
};

export const ACCOUNTANTS = {
  PLD: "privacy loss distributions (PLD)",
  RDP: "Rényi differential privacy (RDP)",
  "closed form": "the closed form for Gaussian noise",
};

export const list = (names, most = 6) =>
  names.length <= most ? names.join(", ") : `${names.slice(0, most).join(", ")} and ${names.length - most} more`;
