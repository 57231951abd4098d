// The first screen: the swarms, the tasks and the way to a new one.

import { byId, element, rows } from "../page/elements.js";

const STATES = { over: "over", silent: "silent: it does not run", runs: "runs", unreadable: "cannot be read" };

const lines = ({ folder, task, round, rounds: all, state, model_bytes: bytes }) => ({
  cells: [
    folder,
    task,
    { text: state === "unreadable" ? "" : `${round} of ${all}`, className: "number" },
    STATES[state],
    state === "unreadable" ? "" : { text: bytes == null ? "rounds and settings" : "model, report, predictions", link: `#done?${new URLSearchParams({ run: folder })}` },
  ],
});

export const startScreen = {
  title: "Swarms",
  template: "start-screen",
  show({ swarms, tasks }) {
    byId("swarms-none").hidden = swarms.length > 0;
    byId("swarms-box").hidden = !swarms.length;
    rows(byId("swarms"), swarms.map(lines));
    byId("tasks-box").hidden = !tasks.length;
    byId("tasks").replaceChildren(
      ...tasks.map((file) => {
        const item = element("li");
        item.append(Object.assign(element("a", "", file), { href: `#task?${new URLSearchParams({ file })}` }));
        return item;
      }),
    );
  },
};
