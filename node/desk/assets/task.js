// A task in sentences, with the lines that tell something about the data, and the check.

import { byId, element, say, terms } from "../page/elements.js";
import { counted } from "../page/words.js";
import { post } from "./ask.js";
import { files, findings, items } from "./fields.js";

const field = (line, { key, text, is_list: isList }) => {
  const label = element("label", "", isList ? `${key}, one on each line` : key);
  const input = element(isList ? "textarea" : "input");
  input.value = text;
  input.name = key;
  input.id = `value-${line.number}-${key}`;
  if (isList) input.rows = Math.min(8, text.split("\n").length + 1);
  label.htmlFor = input.id;
  return [label, input];
};

const marksSentence = (marked, isOwn) => {
  if (!marked) return "Nothing in the task is marked as from somebody's data.";
  const come = `${counted(marked, "line")} of the task ${marked === 1 ? "comes" : "come"} from`;
  return isOwn ? `${come} your data, and no noise covers them: whoever gets the task reads them. Replace what must stay secret by public values.` : `${come} the inviter's data.`;
};

const button = (text, type = "button") => Object.assign(element("button", "", text), { type });

export const taskScreen = {
  title: "The task",
  template: "task-screen",
  async show({ data }, query, desk) {
    const file = query.get("file") ?? "";
    const isOwn = !query.has("theirs"); // nobody changes the task of a swarm, which its members have signed
    let task = await desk.get("/v1/task", { file });

    const replace = async (line, values, why) => {
      try {
        task = await post("/v1/replace", { file, line: line.number, old: line.text, values });
        draw();
        desk.announce(`Line ${line.number} is replaced`);
      } catch (error) {
        why.hidden = false;
        say(why, error.message);
      }
    };

    const edit = (item, line) => {
      const form = element("form");
      const why = element("p", "note");
      why.hidden = true;
      why.setAttribute("role", "alert");
      const buttons = element("p", "buttons");
      const cancel = button("Cancel");
      cancel.addEventListener("click", draw);
      buttons.append(button(line.removable ? "Remove the line" : "Save", "submit"), cancel);
      form.append(...line.values.flatMap((value) => field(line, value)), buttons, why);
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        const values = line.removable ? null : Object.fromEntries(line.values.map(({ key }) => [key, form.elements[key].value]));
        replace(line, values, why);
      });
      item.querySelector("button").remove();
      item.append(form);
      (form.querySelector("input, textarea") ?? form.querySelector("button")).focus();
    };

    const mark = (line) => {
      const item = element("li");
      const row = element("div", "row");
      row.append(element("span", "", line.says));
      if (isOwn && (line.removable || line.values.length)) {
        const open = button(line.removable ? "Remove" : "Replace");
        open.setAttribute("aria-label", `${open.textContent} line ${line.number}: ${line.says}`);
        open.addEventListener("click", () => edit(item, line));
        row.append(open);
      }
      item.append(row);
      return item;
    };

    const draw = () => {
      terms(byId("sentences"), task.sentences);
      say(byId("marks-sentence"), marksSentence(task.marked, isOwn));
      byId("marks").replaceChildren(...task.lines.filter((line) => line.marked).map(mark));
      byId("file").replaceChildren(
        ...task.lines.map((line) => {
          const item = element("li", line.marked ? "marked" : "");
          item.append(element("code", "", line.text));
          return item;
        }),
      );
    };

    draw();
    for (const part of document.querySelectorAll(".own")) part.hidden = !isOwn;
    if (!isOwn) say(byId("marks-title"), "What it tells about the inviter's data");
    byId("to-invite").href = `#invite?${new URLSearchParams({ file, data: query.get("data") ?? "" })}`;
    byId("again").href = `#data?${new URLSearchParams({ file: query.get("data") ?? "" })}`;
    items(byId("proposed"), JSON.parse(sessionStorage.getItem(`proposed ${file}`) ?? "[]"));
    files(byId("check-data"), data, query.get("data"));
    const told = (news) => findings(byId("findings"), news.map(({ level, what, text, table }) => ({ level, text: `${what}: ${text}`, table })));
    const done = ({ problems, warnings }) => desk.announce(problems ? counted(problems, "problem") : `Nothing found that would fail, ${counted(warnings, "warning")}`);
    desk.steps(byId("check-form"), "check", () => ({ task: file, data: byId("check-data").value }), { told, done });
  },
};
