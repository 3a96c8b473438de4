// The page in a headless browser, and the official client of OpenAI's API for Node: run by .ci/nightly from the folder
// that has their packages. Its argument is the program. It fails with what is wrong, and leaves screenshots.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import chromium from "@sparticuz/chromium";
import OpenAI from "openai";
import puppeteer from "puppeteer-core";

const PATIENCE = { timeout: 30000 };
const TOKEN = "0123456789abcdef0123456789abcdef";
const program = process.argv[2];
const home = mkdtempSync(join(tmpdir(), "peacrab-page-"));
const env = { ...process.env, PEACRAB_HOME: home };
const port = await freePort();
writeFileSync(
  join(home, "config.toml"),
  `[asking]\napprove_tools = ["remember"]\n[providers.main]\ntype = "rehearsal"\n[gateway]\nlisten = "127.0.0.1:${port}"\n[api_tokens.node]\ntoken = "${TOKEN}"\n`,
);

function freePort() {
  return new Promise((found) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => found(port));
    });
  });
}

async function start() {
  const log = openSync(join(home, "log"), "a");
  const daemon = spawn(program, ["run"], { env, stdio: ["ignore", log, log] });
  for (let tries = 0; ; tries += 1) {
    const response = await fetch(`http://127.0.0.1:${port}/health`).catch(() => null);
    if (response?.ok) return daemon;
    assert.ok(tries < 300, readFileSync(join(home, "log"), "utf8"));
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function stop(daemon) {
  if (daemon.exitCode !== null || daemon.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    daemon.on("exit", resolve);
    daemon.kill("SIGTERM");
  });
}

let daemon = await start();
const browser = await puppeteer.launch({
  args: [...chromium.args, "--no-sandbox"],
  executablePath: await chromium.executablePath(),
  headless: "shell",
});
const page = await browser.newPage();
const faults = [];
page.on("dialog", async (dialog) => {
  faults.push(`a dialog: ${dialog.message()}`);
  await dialog.dismiss();
});
page.on("pageerror", (error) => faults.push(error.message));
page.on("console", (line) => {
  if (line.text().includes("Content Security Policy")) faults.push(line.text());
});

const texts = (who) => page.$$eval(`#messages article.${who} .body`, (all) => all.map((one) => one.innerText));
const answers = (count) =>
  page.waitForFunction((count) => document.querySelectorAll("#messages article.bot").length >= count, PATIENCE, count);
let expected = 0;
/// Waits for more messages of the bot.
const answered = (more = 1) => answers((expected += more));
const listShows = (words) =>
  page.waitForFunction((words) => document.getElementById("panel").innerText.includes(words), PATIENCE, words);
const linkIs = (shown) =>
  page.waitForFunction((shown) => (document.getElementById("link").textContent !== "") === shown, PATIENCE, shown);

/// From a phone to a desktop and back, the page is loaded again.
async function resize(viewport) {
  await page.setViewport(viewport);
  await page.reload({ waitUntil: "networkidle2", ...PATIENCE });
  await answers(expected);
}

/// Opens a list with the keyboard alone.
async function openList(name, words) {
  const narrow = await page.$eval("#open-side", (button) => getComputedStyle(button).display !== "none");
  if (narrow) await page.click("#open-side");
  await page.focus(`#shows [data-list=${name}]`);
  await page.keyboard.press("Enter");
  await listShows(words);
}

async function closeList() {
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.getElementById("panel").open, PATIENCE);
}

/// Sends a request as the page does.
function fetchAs(page, path, body) {
  return page.evaluate(
    async (path, body) => {
      const { csrf } = await (await fetch("/me")).json();
      const headers = { "Content-Type": "application/json", "X-CSRF-Token": csrf };
      return (await fetch(path, { method: "POST", headers, body: JSON.stringify(body) })).status;
    },
    path,
    body,
  );
}

/// Goes to a button or a field of the list by the keyboard, and presses it.
async function pressInList(label, how = "press") {
  for (let tabs = 0; tabs < 60; tabs += 1) {
    const focused = await page.evaluate(() => document.activeElement.getAttribute("aria-label"));
    if (focused === label) return how === "press" && page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
  }
  assert.fail(`no button ${label} can be reached`);
}

/// Each list, as far as it can be seen and heard.
async function listsAreAccessible(name) {
  for (const [list, words] of [
    ["waiting", "Nothing is waiting"],
    ["jobs", "Drink water."],
    ["files", "AGENTS.md"],
    ["usage", "Today, in tokens"],
    ["channels", "Last heard"],
    ["signins", "This browser"],
  ]) {
    await openList(list, words);
    await isAccessible(`${name}-${list}`);
    await closeList();
  }
}

async function say(text) {
  await page.focus("#text");
  await page.keyboard.type(text);
  await page.keyboard.press("Enter");
}

/// Rules for people who see, hear or point otherwise.
async function isAccessible(name) {
  await page.screenshot({ path: `${name}.png` });
  const session = await page.createCDPSession();
  const run = async (expression) => {
    const { result } = await session.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    return result.value;
  };
  // The page's policy lets no other script in.
  await run(readFileSync("node_modules/axe-core/axe.min.js", "utf8"));
  const found = await run("axe.run().then((done) => done.violations.map((it) => it.id + ': ' + it.nodes[0].html))");
  assert.deepEqual(found, [], name);
}

try {
  await page.setViewport({ width: 1100, height: 750 });
  const link = execFileSync(program, ["web"], { env }).toString().match(/http\S+/)[0];
  await page.goto(link);
  await page.waitForSelector("#sign-in:not([hidden])", PATIENCE);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#text", { visible: true, ...PATIENCE });

  await say("Hello **you** <img src=x onerror=alert(1)> [l](javascript:alert(2))");
  await answered();
  const name = join(home, "<img src=x onerror=alert(3)>.txt");
  writeFileSync(name, "x");
  await (await page.$("#file")).uploadFile(name);
  await page.waitForFunction(() => document.querySelector("#attached button"), PATIENCE);
  await say("a file");
  await answered();
  await page.click('#shows [data-says="/status"]');
  await answered();
  assert.equal(await page.$$eval("#messages img, #messages a[href^=javascript]", (all) => all.length), 0);

  // A file of others: its name stands among the steps and the sources, its content in the answer.
  const hostile = "<img src=x onerror=alert(4)>.md";
  mkdirSync(join(home, "downloads"), { recursive: true });
  writeFileSync(join(home, "downloads", hostile), "<script>alert(5)</script><img src=x onerror=alert(6)>");
  await say(`read downloads/${hostile}`);
  await answered();
  await page.waitForFunction(() => document.getElementById("activity-now").textContent.includes("read_file ✓"), PATIENCE);
  await page.focus("#activity-now");
  await page.keyboard.press("Enter");
  const read = await page.$eval("#activity-steps", (steps) => steps.innerText);
  assert.match(read, /read_file .*<img src=x onerror=alert\(4\)>/s);
  assert.match(read, /read: .*<img src=x onerror=alert\(4\)>.*untrusted/s);
  assert.match((await texts("bot")).at(-1), /<script>alert\(5\)/);
  assert.equal(await page.$$eval("#activity-steps img, #messages img, #messages script", (all) => all.length), 0);
  await page.keyboard.press("Enter");

  // A question in another conversation marks it, and is answered in words from the list, by the keyboard alone.
  const title = () => page.title();
  await fetchAs(page, "/messages", { session: "colours", id: "colours-0001", text: "ask Which <i>colour</i>" });
  await page.waitForFunction(() => document.title.startsWith("(1) "), PATIENCE);
  await page.waitForSelector("#sessions [aria-label='colours, new messages']", PATIENCE);
  await page.waitForFunction(() => document.querySelector("[data-list=waiting]").textContent === "Waiting (1)", PATIENCE);
  await openList("waiting", "colour");
  await isAccessible("question");
  assert.equal(await page.$$eval("#panel i", (all) => all.length), 0);
  await pressInList("Your answer: Which <i>colour</i>", "type");
  await page.keyboard.type("a light green");
  await page.keyboard.press("Enter");
  await listShows("Nothing is waiting");
  await closeList();
  await page.click("#sessions [aria-label='colours, new messages']");
  await page.waitForFunction(() => document.getElementById("messages").innerText.includes("a light green"), PATIENCE);
  await page.waitForFunction(() => !document.title.startsWith("("), PATIENCE);
  await page.click("#sessions li:last-child button");
  await answers(expected);
  assert.equal(await title(), "main · Peacrab");

  // A second tab shows the same, and a slow network only delays it.
  const second = await browser.newPage();
  await second.goto(`http://127.0.0.1:${port}/`);
  await second.waitForFunction((count) => document.querySelectorAll("#messages article.bot").length >= count, PATIENCE, expected);
  await second.emulateNetworkConditions({ download: 5000, upload: 5000, latency: 400 });
  await second.focus("#text");
  await second.keyboard.type("from the other tab");
  await second.keyboard.press("Enter");
  await second.keyboard.press("Enter");
  await page.bringToFront();
  await answered();
  assert.equal((await texts("you")).filter((text) => text === "from the other tab").length, 1);
  await second.close();

  // A file is dropped on the page, code is copied, and Escape stops a turn.
  await page.evaluate(() => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(["dropped"], "dropped.txt"));
    const drop = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
    document.getElementById("chat").dispatchEvent(drop);
  });
  await page.waitForFunction(() => document.getElementById("attached").innerText.includes("dropped.txt"), PATIENCE);
  await page.focus("#text");
  for (const line of ["it was dropped", "```", "let crab = 1;"]) {
    await page.keyboard.type(line);
    await page.keyboard.down("Shift");
    await page.keyboard.press("Enter");
    await page.keyboard.up("Shift");
  }
  await say("```");
  await answered();
  assert.match((await texts("you")).at(-1), /it was dropped/);
  await page.click("#messages article.bot:last-of-type .copy");
  await page.waitForFunction(() => document.querySelector("#messages article.bot:last-of-type .copy").textContent === "Copied", PATIENCE);
  await say("wait 60");
  await page.waitForSelector("#stop", { visible: true, ...PATIENCE });
  await page.keyboard.press("Escape");
  await answered();
  await page.waitForSelector("#stop", { hidden: true, ...PATIENCE });
  assert.match((await texts("bot")).at(-1), /Stopped/);

  // A call waits, and is decided from the list; its turn is seen at work.
  await say("remember that the crab is <b>small</b>");
  await answered();
  await page.waitForFunction(() => document.querySelector("[data-list=waiting]").textContent === "Waiting (1)", PATIENCE);
  // Loaded again in the middle of its turn, the page shows the earlier steps.
  await page.reload({ waitUntil: "load", ...PATIENCE });
  await answers(expected);
  await page.waitForFunction(() => document.getElementById("activity-now").textContent.includes("remember"), PATIENCE);
  await openList("waiting", "remember");
  await listShows("Asked because");
  await isAccessible("waiting");
  await pressInList("Approve: remember, request 2");
  await listShows("Nothing is waiting");
  await closeList();
  await answered();
  await page.waitForFunction(() => document.getElementById("activity-now").textContent.includes("remember ✓"), PATIENCE);
  await page.focus("#activity-now");
  await page.keyboard.press("Enter");
  const steps = await page.$eval("#activity-steps", (steps) => steps.innerText);
  assert.match(steps, /remember .*small.* ms/s);
  assert.match(steps, /tokens read/);
  assert.equal(await page.$$eval("#activity-steps b", (all) => all.length), 0);
  await isAccessible("turn");

  await say("/jobs message every 2h | Drink water.");
  await answered();
  await openList("jobs", "Drink water.");
  await pressInList("Pause: job 1");
  await listShows("paused");
  await pressInList("Resume: job 1");
  await listShows("Pause");
  await closeList();
  await openList("files", "AGENTS.md");
  const saved = await page.evaluate(async () => {
    const link = [...document.querySelectorAll("#panel a")].find((it) => it.textContent.startsWith("AGENTS.md"));
    const response = await fetch(link.href);
    return [response.status, response.headers.get("content-disposition"), (await response.text()).length > 0];
  });
  assert.deepEqual(saved, [200, "attachment; filename*=UTF-8''AGENTS.md", true]);
  await closeList();
  await listsAreAccessible("light");

  await isAccessible("light");
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await isAccessible("dark");
  await listsAreAccessible("dark");
  await resize({ width: 390, height: 844, isMobile: true });
  await isAccessible("phone");
  await listsAreAccessible("phone");
  await resize({ width: 1100, height: 750 });

  await stop(daemon);
  await linkIs(true);
  await say("while it was away");
  daemon = await start();
  await answered();
  await linkIs(false);
  assert.equal((await texts("you")).filter((text) => text === "while it was away").length, 1);
  assert.match((await texts("bot")).at(-1), /^You said: while it was away/);

  // Loaded while the daemon is away, the page waits for it.
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => null));
  await stop(daemon);
  await page.reload({ waitUntil: "load", ...PATIENCE });
  await page.waitForFunction(() => document.getElementById("door-words").textContent.includes("trying again"), PATIENCE);
  await isAccessible("away");
  daemon = await start();
  await answers(expected);
  await page.waitForSelector("#text", { visible: true, ...PATIENCE });

  // A browser signs another one out, by the keyboard alone.
  const other = await fetch(`http://127.0.0.1:${port}/login`, {
    method: "POST",
    headers: { "User-Agent": "Other <b>browser</b>" },
    body: JSON.stringify({ code: execFileSync(program, ["web"], { env }).toString().match(/#(\w+)/)[1] }),
  });
  const cookie = other.headers.get("set-cookie").split(";")[0];
  const isSignedIn = async () => (await fetch(`http://127.0.0.1:${port}/me`, { headers: { Cookie: cookie } })).status;
  assert.equal(await isSignedIn(), 200);
  await openList("signins", "Other <b>browser</b>");
  const label = await page.$$eval("#panel button", (all) => all.map((it) => it.getAttribute("aria-label")).find((it) => it?.includes("Other")));
  await pressInList(label);
  await pressInList(label.replace("Sign out", "Sign out for good"));
  await listShows("1 browser is signed out.");
  assert.equal(await isSignedIn(), 401);
  await closeList();

  const client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: TOKEN });
  const messages = [{ role: "user", content: "hello" }];
  const whole = await client.chat.completions.create({ model: "peacrab", messages });
  assert.match(whole.choices[0].message.content, /^You said: hello/);
  const stream = client.chat.completions.stream({ model: "peacrab", messages, user: "main" });
  assert.equal(await stream.finalContent(), whole.choices[0].message.content);
  await answered();
  assert.deepEqual(faults, []);
  console.log("the page and the client do what they should");
} finally {
  await browser.close();
  await stop(daemon);
  rmSync(home, { recursive: true, force: true });
}
