// Subagents in the chat and its inspector, a skill made of a run, and the agents and skill documents of Settings.
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { startModel } from "./lib/model.mjs";
import { armed, until } from "./lib/page.mjs";

export default async function (t) {
  const model = await startModel();
  try {
    await t.rpc("providers.set", { name: "suite", entry: { type: "openai", baseUrl: model.url } });
    await t.rpc("providers.set_role", { role: "chat", chain: ["suite/one"] });
    await subagents(t, model);
    await skillOfRun(t);
    await documents(t);
    await trusted(t, model);
    await budgets(t);
    await personas(t, model);
  } finally {
    model.stop();
  }
}

const box = (page) => page.getByRole("textbox", { name: "Message", exact: true });
const said = (page) => page.getByRole("region", { name: "Conversation" });

async function subagents({ page, go, looks, check }, model) {
  const brief = { goal: "Find the three largest files below the shared folder and write their names down", available_tools: ["file_list", "file_write"] };
  model.say(
    { text: "I let another one look.", calls: [{ name: "delegate_to_agent", args: brief }] },
    { calls: [{ name: "file_write", args: { path: "/shared/largest.txt", text: "big.txt and two more" } }] },
    "They are big.txt and two more.",
    { text: "The largest is big.txt.", calls: [{ name: "file_write", args: { path: "/shared/answer.txt", text: "It is big.txt." } }] },
    "Written.",
  );
  await go("chat");
  await box(page).fill("Which files are the largest?");
  await page.keyboard.press("Enter");
  await armed(page); // the question of the subagent
  await said(page).getByRole("link", { name: brief.goal }).waitFor();
  await looks("asks");
  await page.getByRole("button", { name: "Allow: This session" }).click();
  await said(page).getByText("They are big.txt").or(said(page).getByText("The largest is big.txt.")).first().waitFor();
  await armed(page);
  await page.getByRole("button", { name: "Allow: This session" }).click();
  await said(page).getByText("Written.").waitFor();
  await looks("subagent");
  await page.getByRole("button", { name: "Inspector" }).click();
  const pane = page.getByRole("complementary", { name: "Inspector" });
  await pane.getByRole("tab", { name: "Tree" }).click();
  await pane.getByRole("link", { name: brief.goal }).waitFor();
  await looks("tree");
  await pane.getByRole("tab", { name: "Cost" }).click();
  await pane.getByText("Subagents, in addition").waitFor();
  const chat = page.url();
  await said(page).getByRole("link", { name: brief.goal }).click();
  await said(page).getByText("They are big.txt").waitFor();
  await looks("subagent-chat");
  check(page.url() !== chat, "the link leads to the chat of the subagent");
  await page.goBack();
  await said(page).getByText("Written.").waitFor();
}

async function skillOfRun({ page, looks, check, rpc }) {
  const pane = page.getByRole("complementary", { name: "Inspector" });
  await pane.getByRole("tab", { name: "Log" }).click();
  await pane.getByRole("button", { name: "Create a skill" }).click();
  await pane.getByText(/^In a dry run, every step/).waitFor();
  await looks("skill-of-run");
  const { skills } = await rpc("skills.list_composite", {});
  check(skills.length === 1 && !skills[0].isEnabled, "the draft is disabled");
}

async function documents({ page, go, looks, helix, rpc }) {
  const dir = path.join(helix.dir, "project", "skills");
  const put = async (name, text) => {
    await mkdir(path.join(dir, name), { recursive: true });
    await writeFile(path.join(dir, name, "SKILL.md"), text);
  };
  await put("reports", "---\nname: reports\ndescription: Writes the weekly report from the notes of the week.\nallowed-tools: Read Bash\n---\n1. Read the notes.\n2. Write the report.\n");
  await put("broken", "---\nname: Broken Name\n---\n");
  await rpc("agent.skills", {});
  await put("reports", "---\nname: reports\ndescription: Writes the weekly report from the notes of the week.\nallowed-tools: Read Bash\n---\n1. Read the notes.\n2. Write the report.\n3. Send it to everyone.\n");
  await go("settings/agent");
  await page.getByText("Has errors").waitFor();
  await looks("documents");
  await page.getByRole("button", { name: "Review" }).click();
  const sheet = page.getByRole("dialog", { name: "reports" });
  await sheet.getByText("3. Send it to everyone.").first().waitFor();
  await looks("changes");
  await sheet.getByRole("button", { name: "Accept changes" }).click();
  await until(async () => (await rpc("agent.skills", {})).skills.some((s) => s.name === "reports" && s.state === "active"), "the changes are accepted");
  await page.getByRole("button", { name: "Add…" }).click();
  const form = page.getByRole("dialog", { name: "Add a skill document" });
  await form.getByLabel("Or its text").fill("---\nname: tea\ndescription: Makes tea.\n---\nBoil water.\n");
  await looks("add");
  await form.getByRole("button", { name: "Add" }).click();
  const tea = page.getByRole("dialog", { name: "tea" });
  await tea.getByText("Boil water.").waitFor();
  await tea.getByRole("button", { name: "Remove" }).click();
  await page.locator(".toast", { hasText: "Removed tea" }).getByRole("button", { name: "Undo" }).click(); // other messages may still offer theirs
  await until(async () => (await rpc("agent.skills", {})).skills.some((s) => s.name === "tea" && s.state === "inactive"), "the document is back");
}

// Chats of a project use the documents in its folder only while the person trusts it.
async function trusted({ page, go, looks, check, helix, rpc }, model) {
  const project = path.join(helix.dir, "boat");
  await mkdir(path.join(project, ".helix", "skills", "rigging"), { recursive: true });
  await writeFile(path.join(project, ".helix", "skills", "rigging", "SKILL.md"), "---\nname: rigging\ndescription: Sets the sails of the boat.\n---\nHoist the main sail first.\n");
  const told = async () => {
    const { session } = await rpc("chat.create", { projectDir: project });
    model.say("Aye.");
    const { turnId } = await rpc("chat.send", { sessionId: session.id, text: "Hello" });
    await until(async () => (await rpc("chat.wait", { turnId, waitMs: 60_000 })).turn.state === "completed", "the chat of the project has answered");
    return JSON.stringify(model.requests.at(-1)).includes("Sets the sails of the boat.");
  };
  check(!(await told()), "a project that is not trusted adds nothing to a chat");
  await go("settings/agent");
  await page.getByText("No trusted projects yet.").waitFor();
  const field = page.getByRole("textbox", { name: "Project folder" });
  await field.fill(project);
  await field.press("Enter"); // a click would leave the pointer on a button that then explains why it is disabled
  await page.getByRole("list", { name: "Trusted projects" }).getByText(project).waitFor();
  await looks("trusted");
  check(await told(), "a trusted project adds its documents");
  await page.getByRole("button", { name: "Revoke", exact: true }).click();
  await page.getByText("No trusted projects yet.").waitFor();
  check(!(await told()), "the documents of a project are gone once its trust is revoked");
  await page.locator(".toast", { hasText: "is no longer trusted" }).getByRole("button", { name: "Undo" }).click();
  await page.getByRole("list", { name: "Trusted projects" }).getByText(project).waitFor();
  check(await told(), "undo restores the trust");
}

// A limit in tokens is raised where one in dollars is, and each keeps the other.
async function budgets({ page, looks, check, rpc }) {
  const day = async () => (await rpc("agent.budgets", {})).limits.find((l) => l.scope === "day");
  const before = (await day()).maxCostMicros;
  const field = page.getByRole("textbox", { name: "Limit in tokens: Each day" });
  await field.fill("many");
  await field.press("Enter");
  await page.getByRole("alert").filter({ hasText: "Enter a number of tokens" }).waitFor();
  await field.fill("1,000,000");
  await field.press("Enter");
  await until(async () => (await day()).maxTokens === 1_000_000, "the limit is stored");
  await page.getByText(/ of 1,000,000 tokens/).waitFor();
  await looks("budgets");
  check((await day()).maxCostMicros === before, "the limit in dollars stays");
  await field.fill("");
  await field.press("Enter");
  await until(async () => !(await day()).maxTokens, "the limit is removed");
}

async function personas({ page, go, looks, check }, model) {
  await page.getByRole("button", { name: "New agent…" }).click();
  const form = page.getByRole("dialog", { name: "New agent…" });
  await form.getByLabel("Name").fill("Bad Name");
  await form.getByLabel("SYSTEM.md").fill("Answer like a pirate.");
  await form.getByRole("button", { name: "Save" }).click();
  await form.getByRole("alert").waitFor();
  await form.getByLabel("Name").fill("pirate");
  await form.getByRole("button", { name: "Save" }).click();
  await page.getByText("pirate", { exact: true }).waitFor();
  await page.getByRole("listitem").filter({ hasText: "pirate" }).getByRole("button", { name: "Edit" }).click();
  await page.getByRole("dialog", { name: "pirate" }).getByText("pirate/SYSTEM.md").waitFor();
  await looks("persona");
  await page.keyboard.press("Escape");
  await go("chat");
  await page.getByRole("button", { name: "New chat" }).click();
  await page.getByRole("combobox", { name: "Agent" }).or(page.getByRole("button", { name: "Agent" })).first().click();
  await page.getByRole("option", { name: "pirate" }).click();
  model.say("Aye.");
  await box(page).fill("Hello");
  await page.keyboard.press("Enter");
  await said(page).getByText("Aye.").waitFor();
  await looks("pirate");
  check(JSON.stringify(model.requests.at(-1)).includes("Answer like a pirate."), "the agent is told what its file says");
}
