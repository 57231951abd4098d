// Who is invited, and by which relay.

import { byId } from "../page/elements.js";
import { files } from "./fields.js";

export const inviteScreen = {
  title: "Invite",
  template: "invite-screen",
  show({ data, habits }, query, desk) {
    files(byId("invite-data"), data, query.get("data"));
    byId("relay").value = habits.relay;
    byId("me").value = habits.me;
    const values = () => ({
      task: query.get("file") ?? "",
      data: byId("invite-data").value,
      relay: byId("relay").value,
      me: byId("me").value,
      names: byId("names").value.split("\n"),
    });
    desk.talks(byId("invite-form"), "invite", values);
  },
};
