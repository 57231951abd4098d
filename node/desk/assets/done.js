// What came of a run: the model, a report, predictions.

import { byId, say } from "../page/elements.js";
import { bytes } from "../page/words.js";
import { Refused } from "./ask.js";
import { files, headed, items } from "./fields.js";

export const doneScreen = {
  title: "A swarm",
  template: "done-screen",
  show({ swarms, data }, query, desk) {
    const run = query.get("run") ?? "";
    const found = swarms.find(({ folder }) => folder === run);
    if (!found) throw new Refused(`There is no swarm ${run} in this folder.`);
    say(byId("title"), run);
    byId("watch").href = `run/${encodeURIComponent(run)}/`;
    const has = found.model_bytes != null;
    const so = `after round ${found.round} of ${found.rounds}`;
    say(byId("model-sentence"), has ? `${run}/model.safetensors, ${bytes(found.model_bytes)}, ${found.state === "over" ? `the common model ${so}` : `as it is ${so}`}. It stays on this machine unless you pass it on.` : "There is no model yet: it is written after the first round.");
    byId("predict-form").hidden = !has;
    files(byId("predict-data"), data);
    desk.steps(byId("report-form"), "report", () => ({ run }), { done: ({ lines }) => items(byId("report-lines"), lines) });
    const done = ({ lines, columns, rows }) => {
      items(byId("predict-lines"), lines);
      byId("predicted-box").hidden = false;
      headed("predicted-head", "predicted", columns, rows);
    };
    desk.steps(byId("predict-form"), "predict", () => ({ run, data: byId("predict-data").value }), { done });
  },
};
