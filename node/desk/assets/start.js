// The first screen: the swarms, the tasks and the way to a new one.

import { byId, element, rows } from "../page/elements.js";

const STATES = {
  over: "over", unfinished: "stopped unfinished", silent: "silent: it does not run", runs: "runs", unreadable: "cannot be read",
  invites: "others are invited", joins: "waits for the list", closed: "the list is closed; it has not learned yet",
};

const lines = ({ folder, task, done, state, goes_on: goesOn }) => ({
  cells: [
    { text: folder, link: `#swarm?${new URLSearchParams({ run: folder })}` },
    task,
    { text: done, className: "number" },
    goesOn && state !== "runs" ? `${STATES[state]}; it goes on here` : STATES[state],
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
