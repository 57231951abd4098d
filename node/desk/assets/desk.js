// The frame of the desk: one screen at a time, named behind the # of the address.

import { byId, say } from "../page/elements.js";
import { tokens } from "../page/stream.js";
import { get as ask, Locked, post, work } from "./ask.js";
import { dataScreen } from "./data.js";
import { inviteScreen } from "./invite.js";
import { joinScreen } from "./join.js";
import { startScreen } from "./start.js";
import { swarmScreen } from "./swarm.js";
import { taskScreen } from "./task.js";

const SCREENS = { start: startScreen, data: dataScreen, task: taskScreen, invite: inviteScreen, join: joinScreen, swarm: swarmScreen };

const state = (name, text) => {
  byId("connection").dataset.state = name;
  say(byId("connection-text"), text);
  byId("unlock").hidden = name !== "locked";
};

const fail = (error) => {
  if (error instanceof Locked) {
    byId("content").replaceChildren();
    state("locked", "The token is needed");
    say(byId("unlock-why"), sessionStorage.getItem("token") ? "This is not the token of this page" : "");
    byId("unlock-why").hidden = !byId("unlock-why").textContent;
    return;
  }
  byId("failure").hidden = false;
  say(byId("failure"), error.message);
};

const announce = (text) => say(byId("announcer"), text);

// Does something that is over at once, and shows in `why` what went wrong.
const act = async (why, path, form) => {
  why.hidden = true;
  try {
    return await post(path, form);
  } catch (error) {
    if (error instanceof Locked) fail(error);
    why.hidden = error instanceof Locked;
    say(why, error.message);
    return null;
  }
};

// What a screen may ask of the page, and of the command. No answer and no failure comes to a screen that was left, and it
// changes no other.
const deskOf = (isShown) => {
  const unlessLeft = (heard) => (...came) => isShown() && heard(...came);

  const get = (path, query) => new Promise((resolve, reject) => ask(path, query).then(unlessLeft(resolve), unlessLeft(reject)));

  const next = unlessLeft((screen, query) => {
    location.hash = `${screen}?${new URLSearchParams(query)}`;
  });

  const command = unlessLeft((text) => {
    byId("terminal").hidden = !text;
    say(byId("terminal-command"), text);
  });

  // What a form does: runs a step, and shows beside its button how far it is, and what went wrong. `done` hears what came of it,
  // and what was asked. The id of the form's button is its step's name.
  const steps = (form, name, values, { told = () => {}, done }) => {
    const [button, progress, why] = [byId(name), byId(`${name}-state`), byId(`${name}-why`)];
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      button.disabled = true;
      why.hidden = true;
      say(progress, "Working");
      try {
        const heard = unlessLeft((now) => {
          command(now.command);
          say(progress, now.state === "running" ? now.told.at(-1)?.text ?? "Working" : "");
          told(now.told);
        });
        const asked = values();
        done(await work(name, asked, heard), asked);
      } catch (error) {
        if (error instanceof Locked) return fail(error);
        why.hidden = false;
        say(why, error.message);
      } finally {
        button.disabled = false;
        say(progress, "");
      }
    });
  };

  // A form that starts a command which goes on: its swarm is the next screen.
  const talks = (form, name, values) => {
    const [button, why] = [byId(name), byId(`${name}-why`)];
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      button.disabled = true;
      const begun = await act(why, `/v1/${name}`, values());
      button.disabled = false;
      if (begun) next("swarm", { talk: begun.talk.number });
    });
  };

  return { act, announce, command, get, next, steps, talks };
};

let screens = 0;

const show = async () => {
  if (new URLSearchParams(location.hash.slice(1)).has("token")) tokens.get();
  const [written, query = ""] = location.hash.slice(1).split("?");
  if (written === "main") return;
  const screen = SCREENS[written] ?? SCREENS.start;
  const mine = (screens += 1);
  const desk = deskOf(() => mine === screens);
  const content = byId("content");
  byId("failure").hidden = true;
  try {
    const folder = await desk.get("/v1/desk");
    state("live", "This machine alone");
    say(byId("title"), screen.title);
    document.title = `${screen.title} · Murmuration`;
    say(byId("identity"), folder.folder);
    byId("links").hidden = screen === SCREENS.start;
    desk.command("");
    content.inert = true; // until the screen knows what it shows: its links and buttons would do something else
    content.replaceChildren(byId(screen.template).content.cloneNode(true));
    await screen.show(folder, new URLSearchParams(query), desk);
    content.inert = false;
    if (mine > 1) byId("main").focus();
  } catch (error) {
    content.inert = false;
    fail(error);
    if (!(error instanceof Locked)) state("lost", "It cannot be shown");
  }
};

byId("unlock").addEventListener("submit", (event) => {
  event.preventDefault();
  tokens.set(byId("token").value.trim());
  byId("token").value = "";
  show();
});
byId("terminal-copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(byId("terminal-command").textContent);
  announce("Copied");
});
window.addEventListener("hashchange", show);
show();
