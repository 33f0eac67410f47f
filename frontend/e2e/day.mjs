// A day's work in one walk: "read this folder, find the three largest files, write a skill that does it, schedule it".
// One question is answered on the command line, one in the browser and one in the terminal; the program is killed
// while a question waits and in the middle of an answer, and goes on. Each effect is there once.
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { startModel } from "./lib/model.mjs";
import { armed, until } from "./lib/page.mjs";

export default async function (t) {
  const model = await startModel();
  try {
    await walk(t, model);
  } finally {
    model.stop();
  }
}

async function walk({ page, go, helix, rpc, check }, model) {
  const said = page.getByRole("region", { name: "Conversation" });
  await rpc("providers.set", { name: "suite", entry: { type: "openai", baseUrl: model.url } });
  await rpc("providers.set_role", { role: "chat", chain: ["suite/one"] });
  const { root } = await rpc("workspace.status");
  for (const [i, name] of ["a", "b", "c", "d", "e"].entries()) await writeFile(path.join(root, "shared", `${name}.txt`), "x".repeat(100 * (i + 1)));
  const list = { path: "/shared", sort: "size", limit: 3, recursive: true };
  const call = (name, args) => ({ calls: [{ name, args }] });
  model.say(
    call("file_list", list),
    call("skill_save", { name: "Largest files", steps: [{ stepId: "list", toolType: "builtin", toolName: "file.list", parameters: list, outputMapping: "$.entries[*].path" }] }),
    call("schedule_create", { name: "Largest files each morning", target: { kind: "skill", name: "Largest files" }, cadence: { type: "cron", expression: "30 8 * * 1-5" } }),
    call("file_write", { path: "/shared/report.txt", text: "e.txt, d.txt, c.txt" }),
    { text: "This is said before the program is killed in the middle.", hold: true },
    "Everything is done.",
  );
  const pending = async () => (await rpc("approvals.list", { status: "pending" })).approvals;
  const asked = async (n) => {
    await until(async () => (await pending()).length === 1 && model.requests.length === n, `question ${n - 1} waits`);
    return (await pending())[0].id;
  };

  await go("chat");
  await page.getByText("Ask a question or give Helix a task.").waitFor();
  await page.getByRole("textbox", { name: "Message", exact: true }).fill("Read this folder, find the three largest files, write a skill that does it, schedule it, and leave a report.");
  await page.keyboard.press("Enter");

  // On the command line.
  const shell = helix.terminal("approvals", "decide", await asked(2), "--approve");
  await until(async () => (await pending()).length === 0 || model.requests.length === 3, "the command line answers");
  await shell.end();

  // In the browser, after the program was killed while the question waits.
  const second = await asked(3);
  await again();
  check((await asked(3)) === second, "the question is the same after the kill");
  await page.getByRole("option", { name: /Read this folder/ }).click();
  await armed(page);
  await page.getByRole("button", { name: "Allow: Once" }).click();

  // In the terminal.
  await asked(4);
  const session = (await rpc("chat.list")).sessions[0].id;
  const terminal = helix.terminal("chat", "--session", session);
  await until(() => terminal.seen().includes("y once"), "the terminal asks");
  let tries = 0;
  await until(async () => {
    // Keys count once the question has been shown for a moment and nothing is typed.
    const turn = tries++ % 6;
    if (turn === 4) terminal.type("y");
    if (turn === 5) terminal.type("\x7f");
    return (await pending()).length === 0;
  }, "the terminal answers");
  await until(() => model.requests.length === 5, "the last step");
  await said.getByText("This is said").waitFor();
  await terminal.end();

  // Killed in the middle of the answer.
  await again();
  await page.getByRole("option", { name: /Read this folder/ }).click();
  await said.getByText("Everything is done.").waitFor();
  await until(async () => (await said.getByText("This is said").count()) === 0, "what the killed answer said is gone");

  const skills = (await rpc("callables.list", { kind: "skill", limit: 10 })).callables;
  const { schedules } = await rpc("schedules.list", { kind: "skill" });
  check(skills.length === 1 && skills[0].name === "Largest files", "one skill was made");
  check(schedules.length === 1 && schedules[0].status === "paused", "one schedule was made, and waits for the person");
  check((await readFile(path.join(root, "shared", "report.txt"), "utf8")) === "e.txt, d.txt, c.txt", "the report is there");
  check((await rpc("agent.replay", { sessionId: session })).identical, "the log gives the requests that were sent");
  const { events } = await rpc("chat.events", { sessionId: session });
  for (const tool of ["skill_save", "schedule_create", "file_write"]) check(events.filter((e) => e.type === "tool_intent" && e.data.tool === tool).length === 1, `${tool} was called once`);

  // The person enables the skill and resumes the schedule, which then gives the three files.
  const { scheduleId } = schedules[0];
  await rpc("skills.update_composite", { skill: { skillId: skills[0].id, isEnabled: true } });
  await rpc("schedules.resume", { scheduleId });
  await rpc("schedules.run_now", { scheduleId });
  let run;
  await until(async () => ((run = (await rpc("schedules.runs", { scheduleId })).runs[0]), run?.status === "success"), "the schedule has run");
  check(run.outputSummary === '["/shared/e.txt","/shared/d.txt","/shared/c.txt"]', `the three largest files, not ${run.outputSummary}`);

  async function again() {
    await helix.kill();
    await helix.start();
    helix.forget();
    await page.goto("about:blank");
    await page.goto(await helix.ticket());
    await page.getByRole("navigation", { name: "Screens" }).waitFor();
    await go("chat");
  }
}
