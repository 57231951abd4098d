// What the page asks of the command behind it. An error is one line, for the place where it happened.

import { authorization } from "../page/stream.js";

const AGAIN_MS = 300;

export class Refused extends Error {}
export class Locked extends Error {}

const answered = async (path, how) => {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...how });
  } catch {
    throw new Refused("The command cannot be reached: has it ended? Start it again, and open the address that it prints.");
  }
  if (answer.status === 401) throw new Locked();
  if (answer.ok && answer.headers.get("Content-Disposition")) return answer.blob();
  if (answer.headers.get("Content-Type")?.startsWith("application/json")) {
    const values = await answer.json();
    if (answer.ok) return values;
    throw new Refused(values.error);
  }
  throw new Refused((await answer.text()).trim());
};

export const get = (path, query = {}) => {
  const named = new URLSearchParams(query).toString();
  return answered(named ? `${path}?${named}` : path, { headers: authorization() });
};

// Saves a file as a download: the address of a link would need the token.
export const saved = async (path, query, name) => {
  const address = URL.createObjectURL(await get(path, query));
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  URL.revokeObjectURL(address);
};

export const post = (path, form) =>
  answered(path, { method: "POST", headers: { ...authorization(), "Content-Type": "application/json" }, body: JSON.stringify(form) });

const pause = () => new Promise((resolve) => setTimeout(resolve, AGAIN_MS));

// Begins a step and follows it to its end. `heard` gets the work as it goes on; returns what came of it.
export const work = async (step, form, heard) => {
  let { work: now } = await post(`/v1/${step}`, form);
  const { number } = now;
  heard(now);
  while (now.state === "running") {
    await pause();
    ({ work: now } = await get("/v1/desk", { work: "" }));
    if (now?.number !== number) throw new Refused("Another page has begun something else: look at the folder again.");
    heard(now);
  }
  if (now.state === "failed") throw new Refused(now.error);
  return now.result;
};
