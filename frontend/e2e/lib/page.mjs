// What a suite gets: a page that is signed in, and the few things it does with it.
import axe from "axe-core";
import { mkdir, readFile } from "node:fs/promises";
import path from "node:path";

/** Where screenshots go; without it none are taken, which saves a third of the time. */
const shots = process.env.HELIX_SHOTS;
const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** Waits until the answer buttons that are shown accept an answer. */
export const armed = (page) => page.locator("[data-armed=true]").waitFor();

/** How long to wait in milliseconds: for a busy machine; reached only when something is broken. */
const patience = Number(process.env.HELIX_E2E_TIMEOUT ?? 240_000);

/** Waits for what has no element to wait for. */
export async function until(ok, what) {
  const end = Date.now() + patience;
  while (Date.now() < end) {
    if (await ok()) return;
    await new Promise((r) => setTimeout(r, 200));
  }
  throw new Error(`it never was so: ${what}`);
}

/** Gives the suite the time that a busy machine takes away: messages count down, and the first key of two is kept, four times as long. */
const patient = () => {
  const { setInterval: every, setTimeout: after } = window;
  window.setInterval = (f, ms, ...rest) => every(f, ms === 1000 ? 4000 : ms, ...rest);
  window.setTimeout = (f, ms, ...rest) => after(f, ms === 1200 ? 4800 : ms, ...rest);
};

/** HELIX_E2E_LATE: up to how many milliseconds each frame of the backend is late, as if the machine were busy. */
const late = Number(process.env.HELIX_E2E_LATE ?? 0);

async function delay(page) {
  await page.routeWebSocket(/./, (socket) => {
    const server = socket.connectToServer();
    let last = Promise.resolve();
    // One after the other: timers of a busy process end in another order than theirs.
    const later = (pass) => {
      const due = Date.now() + Math.random() * late;
      last = last.then(() => new Promise((r) => setTimeout(r, Math.max(0, due - Date.now())))).then(pass);
    };
    server.onMessage((frame) => later(() => socket.send(frame)));
    server.onClose((code, reason) => later(() => socket.close({ code, reason })));
  });
}

/** HELIX_E2E_SLOW: how many times slower the page computes, as if the processor were. */
const slow = Number(process.env.HELIX_E2E_SLOW ?? 1);

async function slowDown(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Emulation.setCPUThrottlingRate", { rate: slow });
}

/** What passed in this run, by pass. Most of a screen looks as the one before it, and axe takes half of the time of a suite. */
const passed = { light: new Set(), dark: new Set(), small: new Set() };

/** Lists what contrast depends on, once each: the color of a text, whether it is large, and what is painted behind it. */
const contrasts = () => {
  const behind = new Map();
  const backs = (e) => {
    if (e === null) return "";
    if (!behind.has(e)) {
      const s = getComputedStyle(e);
      const own = `${s.backgroundColor} ${s.backgroundImage} ${s.opacity}`;
      const opaque = s.backgroundColor.startsWith("rgb(") && s.opacity === "1";
      behind.set(e, own === "rgba(0, 0, 0, 0) none 1" ? backs(e.parentElement) : opaque ? own : `${backs(e.parentElement)}/${own}`);
    }
    return behind.get(e);
  };
  const texts = [...document.querySelectorAll("body *")].filter((e) => (e.matches("input, textarea") || [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim() !== "")) && e.checkVisibility());
  const kinds = texts.map((e) => {
    const s = getComputedStyle(e);
    return [s.color, parseFloat(s.fontSize) >= 18, s.textShadow, backs(e)].join(" ");
  });
  return [...new Set(kinds)];
};

/** Lists what can be clicked, focused or scrolled, once for each class, role and parent. */
const shapes = () => {
  const kind = (e) => `${e.localName}.${e.getAttribute("class")}.${e.role}`;
  const all = [...document.querySelectorAll("body *")].filter((e) => (e.matches("a, button, input, select, textarea, summary, [tabindex], [role]") || /auto|scroll/.test(getComputedStyle(e).overflow)) && e.checkVisibility());
  return [...new Set(all.map((e) => `${kind(e.parentElement)} > ${kind(e)}`))];
};

/** Opens a page with all rights and waits for the frame. `prepare` sees it before it goes anywhere. */
export async function openPage(browser, helix, suite, prepare = async () => {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, reducedMotion: "reduce", colorScheme: "light", permissions: ["clipboard-read", "clipboard-write"] });
  const page = await context.newPage();
  // HELIX_WEB: a built interface (frontend/dist) in place of the one inside the program.
  if (process.env.HELIX_WEB) {
    const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
    await page.route(`${helix.url}/**`, async (route) => {
      const name = new URL(route.request().url()).pathname;
      const file = name === "/" ? "/index.html" : name;
      const body = /^\/(index\.html|theme\.js|assets\/.*)$/.test(file) ? await readFile(path.join(process.env.HELIX_WEB, file)).catch(() => null) : null;
      if (body === null) await route.continue();
      else await route.fulfill({ body, contentType: types[path.extname(file)] ?? "application/octet-stream" });
    });
  }
  page.setDefaultTimeout(patience);
  // Chromium is told to report file choosers when the first listener is added, and a key that is pressed at once may come before that.
  page.on("filechooser", () => {});
  if (slow > 1) await slowDown(page);
  await page.addInitScript(patient);
  // So that pictures can be taken in German too; the browser's own language is English.
  if (shots) await page.addInitScript(() => localStorage["helix.language"] ??= "system");
  if (late > 0) await delay(page);
  await prepare(page);
  const complaints = [];
  page.on("pageerror", (e) => complaints.push(`page error: ${e.stack ?? e.message}`));
  page.on("console", (m) => {
    // A refused connection while the backend is down is what some tests are about.
    if (["error", "warning"].includes(m.type()) && !/ERR_CONNECTION_REFUSED|WebSocket connection|status of 401|Failed to load resource/.test(m.text())) complaints.push(`console: ${m.text()}`);
  });
  await page.goto(await helix.ticket());
  await page.getByRole("navigation", { name: "Screens" }).waitFor();

  const t = { page, context, browser, helix, rpc: helix.rpc, complaints };
  t.check = (ok, what) => {
    if (!ok) throw new Error(`expected: ${what}`);
  };
  /** Goes to a place by its address, as a link would. */
  t.go = async (target) => {
    await page.evaluate((h) => (location.hash = h), `#/${target}`);
  };
  t.shot = async (name, dir = shots) => {
    if (!dir) return;
    await mkdir(dir, { recursive: true });
    await page.screenshot({ path: path.join(dir, `${suite}-${name}.png`) });
  };
  /** What axe finds fails the suite at its end. Returns whether it found nothing. `rules` replaces all rules, but for those `without`. */
  t.axe = async (where, rules, without = []) => {
    if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe.source); // once for each document: it takes long
    const options = { runOnly: rules ?? tags, rules: Object.fromEntries(without.map((r) => [r, { enabled: false }])), resultTypes: ["violations"], preload: false };
    const found = await page.evaluate(async (o) => (await window.axe.run(o)).violations, options);
    // The tip of what is under the pointer belongs to no landmark, and a slow page shows it late.
    const violations = found
      .map((v) => (v.id === "region" ? { ...v, nodes: v.nodes.filter((n) => !n.html.includes("data-tooltip-content")) } : v))
      .filter((v) => v.nodes.length > 0);
    if (violations.length === 0) return true;
    const text = violations.map((v) => `${v.id} (${v.impact}): ${v.help}\n    ${v.nodes.slice(0, 4).map((n) => `${n.target.join(" ")}\n      ${n.failureSummary?.split("\n").slice(1).join(" ")}`).join("\n    ")}`).join("\n  ");
    complaints.push(`axe on ${where}:\n  ${text}`);
    return false;
  };
  /** Runs a pass if the page shows a kind of element that has not passed it. */
  const pass = async (name, list, look) => {
    const kinds = await page.evaluate(list);
    if (!kinds.some((k) => !passed[name].has(k))) return false;
    if (await look()) for (const k of kinds) passed[name].add(k);
    return true;
  };
  /** Looks at the smallest window at 200 % zoom: no button may lie outside it, unless one can scroll there. */
  t.zoom = async (name) => {
    await page.setViewportSize({ width: 400, height: 300 });
    await t.shot(`${name}-zoomed`);
    const outside = await page.evaluate(() => {
      const scrolls = (e) => e && (/auto|scroll/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
      return [...document.querySelectorAll("button, input, a[href]")]
        .filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e.parentElement))
        .map((e) => e.getAttribute("aria-label") ?? e.textContent.trim());
    });
    if (outside.length > 0) complaints.push(`outside the window of ${suite} ${name} at 200 % zoom: ${outside.join(", ")}`);
    await page.setViewportSize({ width: 1200, height: 800 });
  };
  /** Shows the interface in the other language, without a reload. */
  const speak = async (language) => {
    await page.evaluate((l) => {
      Object.defineProperty(navigator, "languages", { value: [l], configurable: true });
      dispatchEvent(new Event("languagechange"));
    }, language);
    await page.waitForFunction((l) => document.documentElement.lang === l, language);
  };
  /**
   * Looks at what is shown in light and dark, and small: a screenshot each, all rules once, then those that can differ. Contrast and
   * the small window are looked at where something is shown that has not passed before.
   * Pictures are taken in German, and at 200 % zoom, too.
   */
  t.looks = async (name) => {
    await t.shot(`${name}-light`);
    if (!(await pass("light", contrasts, () => t.axe(`${suite} ${name}, light`)))) await t.axe(`${suite} ${name}, light`, undefined, ["color-contrast"]);
    await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
    await t.shot(`${name}-dark`);
    await pass("dark", contrasts, () => t.axe(`${suite} ${name}, dark`, ["color-contrast"]));
    await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
    const small = async () => {
      await page.setViewportSize({ width: 800, height: 600 });
      await t.shot(`${name}-small`);
      return t.axe(`${suite} ${name}, small`, ["target-size", "scrollable-region-focusable", "button-name", "link-name"]);
    };
    if (shots) await small();
    else await pass("small", shapes, small);
    if (shots) {
      const before = await page.evaluate(() => [document.documentElement.lang, localStorage["helix.language"]]);
      if (before.join() === "en,system") {
        await speak("de");
        await t.shot(`${name}-german`);
        await speak("en");
      }
      await t.zoom(name);
    }
    await page.setViewportSize({ width: 1200, height: 800 });
  };
  t.close = () => context.close();
  return t;
}
