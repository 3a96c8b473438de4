// The page in a headless browser, and the official client of OpenAI's API for Node: run by .ci/nightly from the folder
// that has their packages. Its argument is the program. It fails with what is wrong, and leaves screenshots.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
  `[providers.main]\ntype = "rehearsal"\n[gateway]\nlisten = "127.0.0.1:${port}"\n[api_tokens.node]\ntoken = "${TOKEN}"\n`,
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

const texts = (who) => page.$$eval(`#messages article.${who} .body`, (all) => all.map((one) => one.innerText));
const answers = (count) =>
  page.waitForFunction((count) => document.querySelectorAll("#messages article.bot").length >= count, PATIENCE, count);
const linkIs = (shown) =>
  page.waitForFunction((shown) => (document.getElementById("link").textContent !== "") === shown, PATIENCE, shown);

/// From a phone to a desktop and back, the page is loaded again.
async function resize(viewport) {
  await page.setViewport(viewport);
  await page.reload({ waitUntil: "networkidle2", ...PATIENCE });
  await answers(3);
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
  await answers(1);
  const name = join(home, "<img src=x onerror=alert(3)>.txt");
  writeFileSync(name, "x");
  await (await page.$("#file")).uploadFile(name);
  await page.waitForFunction(() => document.querySelector("#attached button"), PATIENCE);
  await say("a file");
  await answers(2);
  await page.click('#shows [data-says="/status"]');
  await answers(3);
  assert.equal(await page.$$eval("#messages img, #messages a[href^=javascript]", (all) => all.length), 0);

  await isAccessible("light");
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await isAccessible("dark");
  await resize({ width: 390, height: 844, isMobile: true });
  await isAccessible("phone");
  await resize({ width: 1100, height: 750 });

  await stop(daemon);
  await linkIs(true);
  await say("while it was away");
  daemon = await start();
  await answers(4);
  await linkIs(false);
  assert.equal((await texts("you")).filter((text) => text === "while it was away").length, 1);
  assert.match((await texts("bot")).at(-1), /^You said: while it was away/);

  const client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: TOKEN });
  const messages = [{ role: "user", content: "hello" }];
  const whole = await client.chat.completions.create({ model: "peacrab", messages });
  assert.match(whole.choices[0].message.content, /^You said: hello/);
  const stream = client.chat.completions.stream({ model: "peacrab", messages, user: "main" });
  assert.equal(await stream.finalContent(), whole.choices[0].message.content);
  await answers(5);
  assert.deepEqual(faults, []);
  console.log("the page and the client do what they should");
} finally {
  await browser.close();
  await stop(daemon);
  rmSync(home, { recursive: true, force: true });
}
