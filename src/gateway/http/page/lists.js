// The lists of the page: what waits, jobs, files, usage, channels and sign-ins, each with the actions that the chat commands
// have. The server decides who may see and do what.
"use strict";

const LISTS = {
  waiting: { title: "Waiting for you", show: showWaiting },
  jobs: { title: "Jobs", show: showJobs },
  files: { title: "Files", show: showFiles },
  usage: { title: "Usage", show: showUsage },
  channels: { title: "Channels", show: showChannels },
  signins: { title: "Your sign-ins", show: showSignIns },
};

let shownList = null; // { name, path }
let looks = 0; // only the last look at a list is shown

function made(name, text = "", className = "") {
  const element = document.createElement(name);
  element.textContent = text;
  element.className = className;
  return element;
}

function openList(name, path = "") {
  shownList = { name, path };
  $("panel-title").textContent = LISTS[name].title;
  $("panel-list").replaceChildren(made("p", "Loading…"));
  panelSays("");
  if (!$("panel").open) $("panel").showModal();
  showList();
}

async function showList() {
  looks += 1;
  const look = looks;
  const { name, path } = shownList;
  try {
    const shown = await LISTS[name].show(path);
    if (look === looks) $("panel-list").replaceChildren(...shown);
  } catch (error) {
    if (look !== looks) return;
    $("panel-list").replaceChildren();
    panelSays(error.heard ? error.message : "No connection.");
  }
}

function panelSays(words) {
  $("panel-said").textContent = words;
}

$("panel-close").onclick = () => $("panel").close();
$("panel-again").onclick = () => {
  panelSays("");
  showList();
};
$("panel").onclose = () => {
  // The focus returns to the button of the list, which a phone has hidden meanwhile.
  if (document.activeElement === document.body) $("open-side").focus();
};

/// A button that has the server do something, and then shows the list anew. `body` may be made when it is pressed.
function action(words, about, path, body) {
  const button = made("button", words);
  button.type = "button";
  button.setAttribute("aria-label", `${words}: ${about}`);
  button.onclick = async () => {
    button.parentElement.querySelectorAll("button").forEach((it) => (it.disabled = true));
    try {
      panelSays((await post(path, typeof body === "function" ? body() : body))?.said ?? "Done.");
    } catch (error) {
      panelSays(error.heard ? error.message : "No connection. Look at the list before you try again.");
    }
    $("panel-title").focus();
    await showList();
    countWaiting();
  };
  return button;
}

/// One that is pressed twice, because it cannot be taken back.
function finalAction(words, about, path, body) {
  const button = action(words, about, path, body);
  const act = button.onclick;
  button.onclick = () => {
    button.textContent = `${words}? Press again`;
    button.setAttribute("aria-label", `${words} for good: ${about}`);
    button.onclick = act;
  };
  return button;
}

function cards(items, none) {
  if (!items.length) return [made("p", none)];
  const list = made("ul", "", "cards");
  list.append(
    ...items.map((parts) => {
      const item = made("li");
      item.append(...parts);
      return item;
    }),
  );
  return [list];
}

function row(buttons) {
  const row = made("div", "", "choices");
  row.append(...buttons);
  return row;
}

// ---- what waits ----

async function countWaiting() {
  const waiting = await ask("/waiting").catch(() => null);
  if (!waiting) return;
  const count = waiting.approvals.length + waiting.questions.length;
  document.querySelector("#shows [data-list=waiting]").textContent = count ? `Waiting (${count})` : "Waiting";
}

async function showWaiting() {
  const { approvals, questions } = await ask("/waiting");
  const calls = approvals.map((call) => {
    const about = `${call.tool}, request ${call.id}`;
    const decide = (words, action_, make = action) => make(words, about, `/approvals/${call.id}`, { action: action_ });
    const buttons = [decide("Approve", "approve"), decide("Deny", "deny")];
    if (call.offers_always) buttons.splice(1, 0, decide("Always allow", "always", finalAction));
    const whose = call.for ? ` for ${call.for}` : "";
    const parts = [made("strong", `${call.id}: ${call.tool}`), whose];
    if (call.tells) parts.push(made("p", `It tells this to ${call.tells}. It comes from your private chat.`));
    if (call.why) parts.push(made("p", `Asked because ${call.why}.`));
    if (call.files) parts.push(made("p", call.files));
    // Whoever allows a call sees all that it does.
    if (call.change) parts.push(made("p", "It changes a file:", "soft"), block(call.change), made("p", "All its arguments:", "soft"));
    return [...parts, block(call.arguments), row(buttons)];
  });
  const asked = questions.map(({ id, proposal, channel, session, message }) => {
    const text = made("div");
    // The server escapes everything but its own markup.
    text.innerHTML = message.html;
    const path = id === null ? `/proposals/${proposal}` : `/questions/${id}`;
    const request = newId();
    const buttons = (message.choices ?? []).map((label, choice) => action(label, message.text, path, { id: request, choice }));
    const answer = buttons.length ? [row(buttons)] : answerField(id, message.text);
    return [made("strong", session ?? `asked on ${channel}`), text, ...answer];
  });
  return cards([...calls, ...asked], "Nothing is waiting for you.");
}

/// A long text that is scrolled, also by the keyboard.
function block(text) {
  const shown = made("pre", text);
  shown.tabIndex = 0;
  return shown;
}

/// A field for an answer in one's own words.
function answerField(id, about) {
  const field = made("input");
  field.setAttribute("aria-label", `Your answer: ${about}`);
  field.autocomplete = "off";
  const request = newId();
  const button = action("Answer", about, `/questions/${id}`, () => ({ id: request, text: field.value }));
  field.onkeydown = (event) => {
    if (event.key === "Enter" && !event.isComposing) button.click();
  };
  const line = row([field, button]);
  return [line];
}

// ---- jobs ----

async function showJobs() {
  const { jobs } = await ask("/jobs");
  const items = jobs.map((job) => {
    const path = `/jobs/${job.id}`;
    const paused = job.paused !== null;
    const make = (words, verb, how = action) => how(words, `job ${job.id}`, path, { action: verb });
    const next = job.next ? `next ${new Date(job.next).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}` : "";
    const state = paused ? `paused${job.paused ? `: ${job.paused}` : ""}` : next;
    const failed = job.failures ? `${job.failures} failed in a row` : "";
    const facts = [job.kind, `to ${job.to}`, state, failed].filter(Boolean).join(" · ");
    const buttons = paused
      ? [make("Resume", "resume"), make("Remove", "remove", finalAction)]
      : [make("Run now", "run"), make("Pause", "pause"), make("Remove", "remove", finalAction)];
    return [made("strong", `${job.id}: ${job.when}`), made("p", job.text), made("p", facts, "soft"), row(buttons)];
  });
  return cards(items, "There are no jobs. Ask the bot to remind you of something.");
}

// ---- files ----

async function showFiles(path) {
  const { entries, untrusted, cut } = await ask(`/workspace?path=${encodeURIComponent(path)}`);
  const parts = [made("p", path || "Your files", "soft")];
  if (untrusted) parts.push(made("p", "Others may have written what is here."));
  const below = (name) => (path ? `${path}/${name}` : name);
  const lines = entries.map((entry) => [fileLine(entry, below(entry.name))]);
  if (path) {
    const up = folderButton("← back", path.split("/").slice(0, -1).join("/"));
    lines.unshift([up]);
  }
  parts.push(...cards(lines, "There are no files."));
  if (cut) parts.push(made("p", "There are more, which are not shown."));
  return parts;
}

function folderButton(words, path) {
  const button = made("button", words, "quiet");
  button.type = "button";
  button.onclick = () => {
    openList("files", path);
    $("panel-title").focus();
  };
  return button;
}

function fileLine({ name, kind, size }, path) {
  if (kind === "folder") return folderButton(`${name}/`, path);
  if (kind !== "file") return made("span", `${name} (${kind === "link" ? "a link" : "not a regular file"})`);
  const link = made("a", `${name} (${sizeWords(size)})`);
  link.href = `/workspace/file?path=${encodeURIComponent(path)}`;
  link.download = name;
  return link;
}

function sizeWords(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  const [divisor, unit] = bytes < 1e6 ? [1e3, "kB"] : [1e6, "MB"];
  return `${(bytes / divisor).toFixed(1)} ${unit}`;
}

// ---- usage and channels ----

function tableOf(caption, heads, rows) {
  const table = made("table");
  // A wide one is scrolled, also by the keyboard.
  table.tabIndex = 0;
  table.createCaption().textContent = caption;
  const head = table.createTHead().insertRow();
  head.append(
    ...heads.map((words) => {
      const cell = made("th", words);
      cell.scope = "col";
      return cell;
    }),
  );
  const body = table.createTBody();
  for (const [first, ...rest] of rows) {
    const line = body.insertRow();
    const cell = made("th", first);
    cell.scope = "row";
    line.append(cell, ...rest.map((words) => made("td", words)));
  }
  return table;
}

async function showUsage() {
  const { today, days_30 } = await ask("/usage");
  const heads = ["Model", "Calls", "Read", "Cached", "Written", "Cost"];
  const lines = (sums) =>
    sums.map((sum) => [
      sum.name,
      ...[sum.calls, sum.input, sum.cached, sum.output].map((it) => it.toLocaleString()),
      sum.unpriced ? `${dollars(sum.cost)} and more` : dollars(sum.cost),
    ]);
  const shown = (caption, sums) => (sums.length ? tableOf(caption, heads, lines(sums)) : made("p", `${caption}: nothing.`));
  return [shown("Today, in tokens", today), shown("The last 30 days, in tokens", days_30)];
}

async function showChannels() {
  const { channels } = await ask("/channels");
  const rows = Object.entries(channels).map(([name, channel]) => [
    name,
    channel.up ? "up" : "down",
    channel.last_byte_s === null ? "never" : ageWords(channel.last_byte_s),
    channel.pending ? `${channel.pending}${channel.failing.count ? `, ${channel.failing.count} failing` : ""}` : "none",
    channel.trouble ?? channel.failing.reason ?? "",
  ]);
  return [tableOf("Their links", ["Channel", "State", "Last heard", "Messages to send", "Trouble"], rows)];
}

// ---- sign-ins ----

async function showSignIns() {
  const { sign_ins } = await ask("/sign-ins");
  const day = (at) => new Date(at).toLocaleDateString([], { dateStyle: "medium" });
  const items = sign_ins.map(({ id, browser, since, seen, current }) => {
    const ago = Math.max(0, (Date.now() - new Date(seen)) / 1000);
    const used = ago < 7200 ? "used lately" : `last used ${ageWords(ago)}`;
    const name = current ? "This browser" : browser || "A browser without a name";
    const about = current ? browser : "";
    const facts = [about, `signed in ${day(since)}`, used].filter(Boolean).join(" · ");
    const out = finalAction("Sign out", `${name}, ${id}`, `/sign-ins/${id}`, { action: "revoke" });
    return [made("strong", name), made("p", facts, "soft"), row([out])];
  });
  const all = finalAction("Sign out everywhere", "all your browsers", "/sign-ins/all", { action: "revoke" });
  return [...cards(items, "No browser is signed in as you."), ...(sign_ins.length > 1 ? [row([all])] : [])];
}

function ageWords(seconds) {
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    const count = Math.floor(seconds / length);
    if (count) return `${count} ${unit}${count > 1 ? "s" : ""} ago`;
  }
  return `${seconds} s ago`;
}
