// The frame of the desk: one screen at a time, named behind the # of the address.

import { byId, say } from "../page/elements.js";
import { tokens } from "../page/stream.js";
import { get, Locked, post, work } from "./ask.js";
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

const command = (text) => {
  byId("terminal").hidden = !text;
  say(byId("terminal-command"), text);
};

// What a form does: runs a step, and shows beside its button how far it is, and what went wrong. The id of the form's
// button is its step's name.
const steps = (form, name, values, { told = () => {}, done }) => {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [button, progress, why] = [byId(name), byId(`${name}-state`), byId(`${name}-why`)];
    button.disabled = true;
    why.hidden = true;
    say(progress, "Working");
    try {
      const heard = (now) => {
        command(now.command);
        say(progress, now.state === "running" ? now.told.at(-1)?.text ?? "Working" : "");
        told(now.told);
      };
      done(await work(name, values(), heard));
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

// A form that starts a command which goes on: its swarm is the next screen.
const talks = (form, name, values) =>
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    byId(name).disabled = true;
    const begun = await act(byId(`${name}-why`), `/v1/${name}`, values());
    byId(name).disabled = false;
    if (begun && form.isConnected) location.hash = `swarm?talk=${begun.talk.number}`;
  });

const desk = { act, command, steps, talks, announce: (text) => say(byId("announcer"), text) };

let shown = 0;

const show = async () => {
  if (new URLSearchParams(location.hash.slice(1)).has("token")) tokens.get();
  const [written, query = ""] = location.hash.slice(1).split("?");
  if (written === "main") return;
  const screen = SCREENS[written] ?? SCREENS.start;
  const mine = (shown += 1);
  const isShown = () => mine === shown;
  const content = byId("content");
  byId("failure").hidden = true;
  try {
    const folder = await get("/v1/desk");
    if (!isShown()) return; // another screen was asked for meanwhile
    state("live", "This machine alone");
    say(byId("title"), screen.title);
    document.title = `${screen.title} · Murmuration`;
    say(byId("identity"), folder.folder);
    byId("links").hidden = screen === SCREENS.start;
    command("");
    content.inert = true; // until the screen knows what it shows: its links and buttons would do something else
    content.replaceChildren(byId(screen.template).content.cloneNode(true));
    await screen.show(folder, new URLSearchParams(query), { ...desk, isShown });
    if (!isShown()) return;
    content.inert = false;
    if (mine > 1) byId("main").focus();
  } catch (error) {
    if (!isShown()) return;
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
  desk.announce("Copied");
});
window.addEventListener("hashchange", show);
show();
