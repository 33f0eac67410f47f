import Blocks from "@lucide/svelte/icons/blocks";
import { rpc } from "../../lib/rpc";
import { searchCallables } from "../../lib/run/callables";
import { nav } from "../../lib/ui";
import type { ScreenDef } from "../../lib/ui/screen";
import { canBuild } from "./composite/builder";
import { compositeScreen } from "./composite/instance";
import { wasmScreen } from "./instance";
import { skillJobs } from "./jobs.svelte";

export const screen: ScreenDef = {
  id: "skills",
  title: "Skills",
  group: "Work",
  order: 30,
  icon: Blocks,
  needs: ["skills.list_wasm"],
  item: (id) => `skills/${id}`,
  parts: ["wasm"],
  load: () => import("./Skills.svelte"),
  keys: "g k",
  commands: () => [
    ...(canBuild ? [{ id: "skills.new", title: "New skill", group: "Skills", words: "build chain create", run: () => nav.go("skills/new"), when: () => rpc.can("skills.create_composite") }] : []),
    { id: "skills.import", title: "Import skill…", group: "Skills", words: "file", run: () => (nav.go("skills"), compositeScreen().importing.begin()), when: () => rpc.can("skills.import") },
    { id: "skills.install", title: "Install WASM tool…", group: "Skills", words: "module file add", run: () => (nav.go("skills/wasm"), wasmScreen().form.begin()) },
  ],
  search: (rpc, query) =>
    searchCallables(
      rpc,
      query,
      [
        { kind: "skill", noun: "skill", run: "Run skill", open: "Open skill", group: "Skills", at: (id) => `skills/${id}`, part: "" },
        { kind: "wasm", noun: "skill", also: "module", run: "Run skill", open: "Open skill", group: "Skills", at: (id) => `skills/wasm/${id}`, part: "" },
      ],
      (to) => nav.go(to),
    ),
  jobs: () => skillJobs.all,
  start: (rpc) => {
    skillJobs.start(rpc);
    compositeScreen().start();
    wasmScreen().start();
  },
};
