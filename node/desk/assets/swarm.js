// A swarm: what its command asks, who is invited or a member, its model, and what may be made of it.

import { CurvesPart } from "../page/curves.js";
import { byId, children, element, rows, say } from "../page/elements.js";
import { bytes, noteOf, ofDate } from "../page/words.js";
import { saved } from "./ask.js";
import { files, findings, headed, items } from "./fields.js";

const AGAIN_MS = 1000;
const SEATS = { free: "waited for", here: "is here", burnt: "the code is burnt: three wrong tries", over: "the code is over" };
const CONTACTS = { reachable: "here", unreachable: "away", silent: "not heard for a while", "not met": "not met yet", left: "has left", refuses: "refuses this node" };
const NAMES = { invite: "The invitation", join: "Joining", start: "The node", members: "The list" };
const GOES_ON = { invites: NAMES.invite, joins: NAMES.join };
const INTERRUPTED = 130; // it was told to end
const LEVELS = /^(ok|warning|problem|error:?)\s+/;
const ANSWERED = /\[y\/N\] (yes|no)$/;
const LIST = /^(All \d+ are here|The list, \d+ members|These came by your codes)/;

const seatState = ({ state, tries }) => (state === "free" && tries < 3 ? `${SEATS.free}; somebody used a wrong code, ${tries} left` : SEATS[state]);

const makeSeat = (desk) => () => {
  const made = element("li");
  const row = element("div", "row");
  row.append(element("strong"), element("span", "state"));
  const copy = Object.assign(element("button", "", "Copy"), { type: "button" });
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(made.querySelector("code").textContent);
    desk.announce("Copied");
  });
  const line = element("p", "buttons");
  line.append(element("code"), copy);
  made.append(row, line, element("p", "aside"));
  return made;
};

const showSeat = (made, seat) => {
  made.className = seat.state;
  say(made.querySelector("strong"), seat.name);
  say(made.querySelector(".state"), seatState(seat));
  say(made.querySelector("code"), seat.code);
  made.querySelector(".buttons").hidden = !seat.code;
  made.querySelector("button").setAttribute("aria-label", `Copy the code of ${seat.name}`);
  say(made.querySelector(".aside"), seat.words ? `its words: ${seat.words}` : seat.code ? `good until ${ofDate(seat.until)}` : "");
};

// What a command says before a question, since the last one, or the list that it is about: findings, each with its table, and other lines as they are.
const context = (list, lines) => {
  const written = lines.join("\n");
  if (list.dataset.written === written) return;
  list.dataset.written = written;
  const said = [];
  for (const line of lines) {
    const level = LEVELS.exec(line)?.[1].replace(":", "");
    if (level) said.push({ level, text: line.replace(LEVELS, ""), table: [] });
    else if (/^\s/.test(line) && said.length) said.at(-1).table.push(line);
    else if (line.trim() && !line.startsWith("starting: ")) said.push({ level: "", text: line, table: [] });
  }
  findings(list, said);
};

const memberState = ({ is_own: isOwn, invited, removed, vouched_by: sponsor, contact, presence, why }) => {
  if (sponsor) return `${sponsor} vouches for it: not accepted yet`;
  const isHere = !isOwn && contact === "reachable" && presence?.relay;
  const there = presence ? `${isHere ? "here, " : ""}${noteOf(presence)}` : CONTACTS[contact];
  const words = contact === "left" || contact === "refuses" ? CONTACTS[contact] : there;
  return [isOwn && "this machine", invited && "invited all", removed && "removed by you", !isOwn && words, why].filter(Boolean).join("; ");
};

const sentence = ({ line, talk, standing, waits }) => {
  if (talk && talk.status === null) return `${GOES_ON[standing] ?? NAMES[talk.name]} goes on.`;
  const ended = talk && talk.status > 0 && talk.status !== INTERRUPTED ? `${NAMES[talk.name]} has ended with a fault; what it said stands below. ` : "";
  if (!line) return ended || `${NAMES[talk?.name] ?? "It"} has ended.`;
  if (line.state === "over") return `${ended}It is over: ${line.done}.`;
  if (line.state === "unfinished") return `${ended}It stopped unfinished after ${line.done}: a member did not come, or you ended it.`;
  if (line.state === "runs") return `${ended}It runs: ${line.done}.`;
  if (line.state === "silent") return `${ended}It does not run: ${line.done} are over.`;
  if (standing === "closed") return `${ended}The list is closed. Start learns with its members.`;
  if (waits) return `${ended}You have joined; the list is not closed yet. Start waits for it.`;
  return `${ended}${standing === "invites" ? "Others are invited; Start lets them in." : "You have not joined yet: join by the same code again."}`;
};

const mayStart = ({ talk, standing, line, waits }) =>
  !(talk && talk.status === null) && line && line.state !== "runs" && line.state !== "over" && (standing === "closed" || standing === "invites" || waits);

export const swarmScreen = {
  title: "A swarm",
  template: "swarm-screen",
  async show({ data }, query, desk) {
    let now = null;
    let asked = "";
    let told = "";
    let isLost = false;
    const why = byId("run-why");
    const by = Object.fromEntries(query);
    const curves = new CurvesPart();
    let isAsked = false;

    let listed = "";

    const members = () => {
      const written = JSON.stringify(now.members);
      if (written === listed) return;
      listed = written;
      rows(byId("members"), now.members.map((one) => ({ cells: [one.name, { text: one.words, className: "mono" }, memberState(one), ""] })));
      now.members.forEach((one, place) => {
        const cell = byId("members").rows[place].lastElementChild;
        const does = one.removed || one.vouched_by ? "accept" : "remove";
        if (one.is_own) return;
        const called = one.vouched_by ? "Accept" : one.removed ? "Learn with it again" : "Remove";
        const button = Object.assign(element("button", "", called), { type: "button" });
        const isOneOfSeveral = one.vouched_by && now.members.filter(({ name }) => name === one.name).length > 1;
        button.setAttribute("aria-label", `${button.textContent}: ${one.name}`);
        button.addEventListener("click", async () => {
          if (!(await desk.act(why, "/v1/members", { run: now.folder, does, name: isOneOfSeveral ? one.words : one.name }))) return;
          say(byId("members-note"), "It holds from now on, also for a node that runs. The others decide for themselves.");
          await look();
        });
        cell.replaceChildren(button);
      });
    };

    const talk = () => {
      const question = now.talk?.question ?? "";
      byId("question-box").hidden = !question;
      if (question !== asked) {
        say(byId("question"), question);
        if (question) desk.announce(question);
      }
      asked = question;
      if (now.talk && now.talk.command !== told) desk.command(now.talk.command);
      told = now.talk?.command;
      const lines = now.talk?.lines ?? [];
      const sinceAnswer = lines.slice(lines.findLastIndex((line) => ANSWERED.test(line)) + 1);
      context(byId("context"), question ? sinceAnswer.slice(Math.max(0, sinceAnswer.findLastIndex((line) => LIST.test(line)))) : []);
      byId("their-task").hidden = !question || now.standing !== "joins";
      byId("their-task").firstElementChild.href = `#task?${new URLSearchParams({ file: `${now.folder}/task.toml`, theirs: "" })}`;
      say(byId("last-line"), question ? "" : lines.findLast((line) => line.trim()) ?? "");
      byId("log").hidden = !lines.length;
      const list = byId("lines");
      const isAtEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 4;
      children(list, lines, () => element("li"), (made, text) => {
        say(made, text);
        made.className = LEVELS.exec(text)?.[1].replace(":", "") ?? "";
      });
      if (isAtEnd) list.scrollTop = list.scrollHeight;
    };

    let shownTable = "";

    // Statistics that are over: table one here, all else in the report.
    const statistics = (found) => {
      byId("statistics").hidden = !found;
      const written = JSON.stringify(found);
      if (!found || written === shownTable) return;
      shownTable = written;
      say(byId("statistics-sentence"), `Table one of all members' rows. Models, curves and methods stand in the report, ${found.file}.`);
      headed("table-one-head", "table-one", found.columns, found.rows);
    };

    const draw = () => {
      const { line, folder, standing, seats } = now;
      statistics(now.statistics);
      say(byId("title"), folder || NAMES[now.talk.name]);
      talk();
      byId("seats-box").hidden = !seats?.length;
      children(byId("seats"), seats ?? [], makeSeat(desk), showSeat);
      byId("members-box").hidden = !now.members?.length;
      if (now.members) members();
      say(byId("run-sentence"), sentence(now));
      const isOpen = standing === "invites" || standing === "joins";
      say(byId("own-words"), isOpen && now.words ? `Your own words: ${now.words}` : "");
      byId("go").hidden = !mayStart(now);
      byId("end").hidden = !(now.talk && now.talk.status === null);
      const hasRun = Boolean(line?.rounds);
      byId("watch").hidden = !hasRun;
      byId("watch").href = `run/${encodeURIComponent(folder)}/`;
      byId("report-form").hidden = !hasRun || Boolean(now.statistics);
      byId("predict-form").hidden = line?.model_bytes == null;
      const so = hasRun ? `after ${line.done}` : "";
      say(byId("model-sentence"), line?.model_bytes == null ? "" : `${folder}/model.safetensors, ${bytes(line.model_bytes)}: ${line.state === "over" ? `the common model ${so}` : `as it is ${so}`}. It stays on this machine unless you pass it on.`);
    };

    // The curves of a run that is over: its own page has them while it runs, too.
    const showCurves = async () => {
      if (isAsked || now.line?.state !== "over") return;
      isAsked = true;
      const view = await desk.get(`/run/${encodeURIComponent(now.folder)}/v1/status`).catch(() => null);
      curves.show(view?.curves);
    };

    const look = async () => {
      now = await desk.get("/v1/swarm", by);
      draw();
      await showCurves();
    };

    const follow = async () => {
      for (;;) {
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
        try {
          await look();
          if (isLost) why.hidden = true;
          isLost = false;
        } catch (error) {
          isLost = true;
          why.hidden = false;
          say(why, error.message);
        }
      }
    };

    const answer = async (yes) => {
      if (await desk.act(why, "/v1/answer", { talk: now.talk.number, question: asked, yes })) await look();
    };
    byId("yes").addEventListener("click", () => answer(true));
    byId("no").addEventListener("click", () => answer(false));
    byId("go").addEventListener("click", async () => {
      if (await desk.act(why, "/v1/start", { run: now.folder })) await look();
    });
    byId("end").addEventListener("click", async () => {
      if (await desk.act(why, "/v1/end", { talk: now.talk.number })) await look();
    });

    byId("statistics-save").addEventListener("click", async () => {
      const failed = byId("statistics-why");
      failed.hidden = true;
      try {
        await saved("/v1/statistics", { run: now.folder }, now.statistics.file.split("/").at(-1));
      } catch (error) {
        failed.hidden = false;
        say(failed, error.message);
      }
    });

    byId("later-form").addEventListener("submit", async (event) => {
      event.preventDefault();
      if (await desk.act(why, "/v1/later", { run: now.folder, name: byId("later-name").value.trim() })) await look();
    });

    files(byId("predict-data"), data);
    desk.steps(byId("report-form"), "report", () => ({ run: now.folder }), { done: ({ lines }) => items(byId("report-lines"), lines) });
    const done = ({ lines, columns, rows: first }) => {
      items(byId("predict-lines"), lines);
      byId("predicted-box").hidden = false;
      headed("predicted-head", "predicted", columns, first);
    };
    desk.steps(byId("predict-form"), "predict", () => ({ run: now.folder, data: byId("predict-data").value }), { done });
    await look();
    follow();
  },
};
