// From a file to a task: its first rows, what to predict, how it is read, and what is proposed.

import { byId, element, rows, say } from "../page/elements.js";
import { counted } from "../page/words.js";
import { files, headed, items, options } from "./fields.js";

const TEXTS = ["target", "target-kind", "person", "peers", "rounds", "privacy", "epsilon", "come-and-go", "model"];

const OF_STATISTICS = ["by", "family", "time", "event"];

const isForStatistics = () => byId("goal").value === "statistics";

const form = () => {
  const values = { data: byId("data-file").value, statistics: isForStatistics() };
  values.formula = byId("formula").value.split("\n").map((line) => line.trim()).filter(Boolean);
  for (const name of [...TEXTS, ...OF_STATISTICS]) values[name] = byId(name).value.trim();
  values["leave-out"] = [...byId("leave-out-list").querySelectorAll("input:checked")].map((box) => box.value);
  values.missing = byId("missing").value.trim() ? [byId("missing").value.trim()] : [];
  return values;
};

const choice = (name) => {
  const label = element("label");
  label.append(Object.assign(element("input"), { type: "checkbox", value: name }), name);
  return label;
};

// The names of columns as they are in the file choose the target; a file without columns has none.
const columns = (names) => {
  options(byId("target"), names.map((name) => [name, name]), names.at(-1));
  options(byId("person"), [["", "found out"], ["none", "each row is a person's only one"], ...names.map((name) => [name, name])]);
  const each = names.map((name) => [name, name]);
  options(byId("by"), [["", "found out"], ["none", "none"], ...each]);
  for (const id of ["time", "event"]) options(byId(id), [["", "none"], ...each]);
  byId("leave-out-list").replaceChildren(...names.map(choice));
  for (const id of ["target-field", "person-field", "leave-out", "rows-box"]) byId(id).hidden = !names.length;
};

// Hides what has nothing to do with what the task is for.
const aim = () => {
  for (const part of byId("data-form").querySelectorAll(".learn, .statistics")) part.hidden = part.classList.contains("statistics") !== isForStatistics();
  byId("understood").hidden = true;
};

// Another file may have been chosen since somebody asked about this one.
const isChosen = (file) => byId("data-file").value === file;

const choose = async (file, desk) => {
  byId("understood").hidden = true;
  byId("out").value = "";
  byId("look-why").hidden = true;
  byId("data-shown").hidden = false;
  const none = { columns: [], rows: [], left_out: 0 };
  const found = await desk.get("/v1/rows", { file }).catch((error) => ({ ...none, why: error.message }));
  if (!isChosen(file)) return;
  byId("look-why").hidden = !found.why;
  say(byId("look-why"), found.why ?? "");
  columns(found.columns);
  headed("rows-head", "rows", found.columns, found.rows);
  say(byId("rows-note"), found.left_out ? `and ${counted(found.left_out, "more column")}` : "");
};

const understood = ({ headline, columns: read, remarks }, { data }) => {
  if (!isChosen(data)) return;
  byId("understood").hidden = false;
  say(byId("understood-headline"), headline);
  rows(byId("understood-columns"), read.map(({ name, kind, remark, doubt }) => ({ cells: [name, kind, [remark, doubt].filter(Boolean).join("; ")] })));
  items(byId("understood-remarks"), remarks);
  byId("out").value ||= `${byId("data-file").value.split("/").at(-1).split(".")[0].replace(/[^\p{L}\p{N} _-]/gu, "-")}.toml`;
  byId("understood-title").scrollIntoView();
};

export const dataScreen = {
  title: "Your data",
  template: "data-screen",
  async show({ data }, query, desk) {
    byId("data-none").hidden = data.length > 0;
    const file = byId("data-file");
    files(file, data, query.get("file"));
    file.addEventListener("change", (event) => choose(event.target.value, desk));
    byId("goal").addEventListener("change", aim);
    desk.steps(byId("data-form"), "look", form, { done: understood });
    const asked = () => ({ ...form(), out: byId("out").value, force: byId("force").checked });
    const done = ({ task, lines }, { data: file }) => {
      sessionStorage.setItem(`proposed ${task}`, JSON.stringify(lines));
      desk.next("task", { file: task, data: file });
    };
    desk.steps(byId("init-form"), "init", asked, { done });
    if (data.length) await choose(file.value, desk);
  },
};
