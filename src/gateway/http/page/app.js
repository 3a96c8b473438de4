// The page: messages come from the store by server-sent events, and each message is sent once.
"use strict";

const $ = (id) => document.getElementById(id);
const MESSAGES_MAX = 600; // of a long conversation, the older ones are loaded again on demand
const FILE_BYTES_MAX = 50e6; // a browser would not show the refusal of a larger one
const HIDDEN_MS = 30000; // a hidden page gives its connection back; nothing is lost
const NO_CONNECTION = "No connection, trying again…";
const SIGNED_OUT = "Signed out.";
const CODE = /^#([0-9a-f]{64})$/;

let me = null;
let session = "";
let cursor = "";
let before = null;
let source = null;
let hiddenTimer = 0;
let listTimer = 0;
let busy = false;
let stopping = false; // a stopped turn does not report its end
let steps = []; // of the last turn here: { tools, usage }
let shownTurn = null; // its id
let files = []; // { id, name } of finished uploads
let uploads = 0;
let newest = null; // the times of the last messages, by session
const unread = new Set(); // sessions with messages that were not looked at
const shown = new Map(); // the bot's messages by id
const asked = new Map(); // my messages that were sent and not yet seen, by text

// ---- requests ----

function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (me?.csrf) headers["X-CSRF-Token"] = me.csrf;
  const response = await fetch(path, { ...options, headers, credentials: "same-origin" });
  if (response.status === 401 && path !== "/login") {
    signedOut();
    const error = new Error(SIGNED_OUT);
    error.final = true;
    throw error;
  }
  if (!response.ok) {
    const body = await response.json().catch(() => null);
    const error = new Error(body?.error?.message ?? `Error ${response.status}`);
    error.final = response.status < 500 && response.status !== 429;
    error.heard = true;
    throw error;
  }
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  return isJson ? response.json() : null;
}

function post(path, body) {
  return ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

/// Tries again while the daemon or the network is away, and tells why it waits. `isWanted` ends it.
async function untilHeard(request, tell, isWanted = () => true) {
  for (let pause = 1000; ; pause = Math.min(pause * 2, 15000)) {
    try {
      return await request();
    } catch (error) {
      if (error.final || !isWanted()) throw error;
      tell(error.heard ? `${error.message}, trying again…` : NO_CONNECTION);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, pause);
        window.addEventListener("online", () => resolve(clearTimeout(timer)), { once: true });
      });
    }
  }
}

/// A network that is away delays a message. The id makes a repetition harmless.
async function postUntilHeard(path, body) {
  const answer = await untilHeard(() => post(path, body), showLink);
  // The stream says itself when it is connected again.
  if (source?.readyState !== EventSource.CONNECTING) showLink("");
  return answer;
}

function showLink(words) {
  $("link").textContent = words;
}

// ---- signing in ----

function signedOut() {
  me = null;
  closeStream();
  $("app").hidden = true;
  $("panel").close();
  showDoor("You are signed out. Send /web to the bot in a private chat, or run `peacrab web` on its machine, to get a link.");
}

function showDoor(words) {
  $("door").hidden = false;
  $("door-words").textContent = words;
}

function offerSignIn(code) {
  showDoor("This link signs this browser in.");
  const button = $("sign-in");
  button.hidden = false;
  button.focus();
  button.onclick = async () => {
    button.disabled = true;
    try {
      await post("/login", { code });
      history.replaceState(null, "", "/");
      button.hidden = true;
      start();
    } catch (error) {
      showDoor(error.final ? error.message : "No connection. Try again.");
      button.hidden = error.final;
      button.disabled = false;
    }
  };
}

async function start() {
  try {
    me = await untilHeard(() => ask("/me"), showDoor);
  } catch (error) {
    if (error.message !== SIGNED_OUT) showDoor(error.message);
    return;
  }
  $("door").hidden = true;
  $("app").hidden = false;
  $("who").textContent = `${me.name} (${me.role})`;
  const overseer = me.role === "owner" || me.role === "admin";
  for (const list of ["usage", "channels"]) {
    document.querySelector(`#shows [data-list=${list}]`).hidden = !overseer;
  }
  countWaiting();
  await openSession(nameInAddress() ?? "main");
}

$("sign-out").onclick = async () => {
  await post("/logout", {}).catch(() => {});
  signedOut();
};

// ---- sessions ----

function nameInAddress() {
  if (!location.hash.startsWith("#/")) return null;
  try {
    return decodeURIComponent(location.hash.slice(2)) || null;
  } catch {
    return null;
  }
}

async function listSessions() {
  const { sessions } = await ask("/sessions");
  for (const { name, at } of sessions) {
    // What was there before this page is not new.
    if (newest && name !== session && (newest.get(name) ?? "") < at) unread.add(name);
  }
  newest = new Map(sessions.map(({ name, at }) => [name, at]));
  unread.delete(session);
  showTitle();
  const names = sessions.map((it) => it.name);
  if (!names.includes("main")) names.push("main");
  if (session && !names.includes(session)) names.unshift(session);
  const wanted = $("filter").value.trim().toLowerCase();
  $("sessions").replaceChildren(
    ...names
      .filter((name) => name.toLowerCase().includes(wanted))
      .map((name) => {
        const button = document.createElement("button");
        button.textContent = unread.has(name) ? `${name} ●` : name;
        if (unread.has(name)) button.setAttribute("aria-label", `${name}, new messages`);
        if (name === session) button.setAttribute("aria-current", "true");
        button.onclick = () => openSession(name);
        const item = document.createElement("li");
        item.append(button);
        return item;
      }),
  );
}

$("filter").oninput = () => listSessions().catch(() => {});
$("new-session").onsubmit = (event) => {
  event.preventDefault();
  const name = $("new-name").value.trim();
  if (name) openSession(name);
  $("new-name").value = "";
};
$("open-side").onclick = () => {
  $("side").classList.add("open");
  $("close-side").focus();
};
$("close-side").onclick = () => closeSide();
function closeSide() {
  if (!$("side").classList.contains("open")) return;
  $("side").classList.remove("open");
  $("open-side").focus();
}

async function openSession(name) {
  closeStream();
  closeSide();
  session = name;
  history.replaceState(null, "", `#/${encodeURIComponent(name)}`);
  $("title").textContent = name;
  unread.delete(name);
  showTitle();
  $("messages").replaceChildren();
  shown.clear();
  asked.clear();
  showDraft(null);
  setBusy(false);
  steps = [];
  showSteps();
  try {
    const path = `/sessions/${encodeURIComponent(name)}`;
    const page = await untilHeard(() => ask(path), showLink, () => session === name);
    if (session !== name) return;
    showLink("");
    page.messages.forEach((message) => $("messages").append(...show(message)));
    cursor = page.cursor;
    before = page.before;
    $("earlier").hidden = !before;
    toEnd(true);
    openStream();
  } catch (error) {
    if (session === name) trouble(error.message);
  }
  listSessions().catch(() => {});
  if (session === name && !$("panel").open) $("text").focus();
}

function showTitle() {
  const count = unread.size ? `(${unread.size}) ` : "";
  document.title = `${count}${session} · Peacrab`;
}

$("earlier").onclick = async () => {
  const name = session;
  const path = `/sessions/${encodeURIComponent(name)}?before=${before}`;
  const page = await ask(path).catch((error) => trouble(error.message));
  if (!page || session !== name) return;
  const log = $("log");
  const height = log.scrollHeight;
  $("messages").prepend(...page.messages.flatMap((message) => show(message)));
  before = page.before;
  $("earlier").hidden = !before;
  log.scrollTop += log.scrollHeight - height;
};

// ---- the stream ----

function openStream() {
  closeStream();
  const name = encodeURIComponent(session);
  source = new EventSource(`/sessions/${name}/stream?after=${cursor}`);
  const stream = source;
  source.onopen = () => {
    showLink("");
    // A turn that still runs is shown anew, with its steps.
    setBusy(false);
  };
  source.onerror = () => {
    showLink(NO_CONNECTION);
    // A browser gives up after a refusal, as when a proxy restarts.
    if (stream.readyState === EventSource.CLOSED && stream === source) {
      setTimeout(() => stream === source && openStream(), 3000);
      ask("/me").catch((error) => error.final && showLink(error.message));
    }
  };
  source.addEventListener("message", (event) => {
    const message = JSON.parse(event.data);
    cursor = message.cursor;
    const wasAtEnd = isAtEnd();
    $("messages").append(...show(message));
    if (message.from === "bot" && !message.replaces) showDraft(null);
    if (message.from === "bot" && stopping) setBusy((stopping = false));
    if (message.choices || message.replaces) countWaiting();
    while ($("messages").children.length > MESSAGES_MAX) trimOldest();
    toEnd(wasAtEnd);
  });
  source.addEventListener("draft", (event) => {
    const wasAtEnd = isAtEnd();
    showDraft(JSON.parse(event.data).html);
    setBusy(true);
    toEnd(wasAtEnd);
  });
  source.addEventListener("elsewhere", () => {
    // Several come with each answer.
    clearTimeout(listTimer);
    listTimer = setTimeout(() => {
      listSessions().catch(() => {});
      countWaiting();
    }, 500);
  });
  source.addEventListener("typing", () => setBusy(true));
  source.addEventListener("activity", (event) => showActivity(JSON.parse(event.data)));
}

function trimOldest() {
  const oldest = $("messages").firstElementChild;
  // The place before the next one is behind this one.
  before = oldest.dataset.cursor ?? before;
  shown.delete(oldest.dataset.id);
  oldest.remove();
  $("earlier").hidden = !before;
}

function closeStream() {
  source?.close();
  source = null;
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden) hiddenTimer = setTimeout(closeStream, HIDDEN_MS);
  else if (me && session) {
    if (!source) openStream();
    listSessions().catch(() => {});
    countWaiting();
  }
});

/// What a turn does: its steps with their tool calls, what was read, tokens and costs.
function showActivity({ turn, id, step, tool, state, action, args, ms, sources, usage }) {
  if (turn === "start") {
    // After a question, a turn goes on where it was.
    if (id !== shownTurn) steps = [];
    shownTurn = id;
    setBusy(true);
  }
  if (turn === "end") setBusy(false);
  if (step !== undefined) steps[step] ??= { tools: [] };
  const last = steps.findLast(Boolean) ?? (steps[0] = { tools: [] });
  const find = () => steps.flatMap((it) => it?.tools ?? []).find((it) => it.action === action);
  // A page that came in the middle may get one twice.
  if (tool && state === "start" && !find()) last.tools.push({ tool, action, args, state });
  const call = find();
  if (call && tool) Object.assign(call, { state, ms });
  if (call && sources) call.sources = sources;
  if (usage) (steps[step] ?? last).usage = usage;
  const wasAtEnd = isAtEnd();
  showSteps();
  toEnd(wasAtEnd);
}

const CALL_SIGNS = { start: "…", done: "✓", failed: "✗" };

function showSteps() {
  const known = steps.filter(Boolean);
  const calls = known.flatMap((it) => it.tools);
  $("activity").hidden = !calls.length && !known.some((it) => it.usage);
  const sum = (name) => known.reduce((sum, it) => sum + (it.usage?.[name] ?? 0), 0);
  const last = calls.at(-1);
  const parts = [`Step ${Math.max(1, steps.length)}`];
  if (last) parts.push(`${last.tool} ${CALL_SIGNS[last.state]}`);
  if (sum("input")) parts.push(`${(sum("input") + sum("output")).toLocaleString()} tokens`);
  if (sum("cost")) parts.push(dollars(sum("cost")));
  $("activity-now").textContent = parts.join(" · ");
  $("activity-steps").replaceChildren(
    ...known.map(({ tools, usage }, place) => {
      const item = document.createElement("li");
      const used = document.createElement("p");
      if (usage) used.textContent = usedWords(usage);
      else if (busy && place === known.length - 1) used.textContent = "The model is working…";
      item.append(...tools.flatMap(callShown), used);
      return item;
    }),
  );
}

function callShown({ tool, state, args, ms, sources }) {
  const line = document.createElement("p");
  const name = document.createElement("strong");
  name.textContent = `${CALL_SIGNS[state]} ${tool}`;
  const given = document.createElement("code");
  given.textContent = args;
  line.append(name, " ", given, ms === undefined ? "" : ` ${ms} ms`);
  const read = (sources ?? []).map((source) => {
    const line = document.createElement("p");
    line.textContent = `read: ${source}`;
    return line;
  });
  return [line, ...read];
}

function usedWords({ input, cached, output, cost }) {
  const read = `${input.toLocaleString()} tokens read (${cached.toLocaleString()} cached)`;
  return `${read}, ${output.toLocaleString()} written${cost ? `, ${dollars(cost)}` : ""}`;
}

/// Costs are in billionths of a dollar.
function dollars(cost) {
  const amount = cost / 1e9;
  return `$${amount && amount < 0.01 ? amount.toPrecision(2) : amount.toFixed(2)}`;
}

function setBusy(now) {
  busy = now;
  $("stop").hidden = !now;
  if (!now) showDraft(null);
}

function showDraft(html) {
  $("draft").hidden = html === null;
  // The server escapes everything but its own markup.
  $("draft").innerHTML = html ?? "";
}

// ---- messages ----

function show(message) {
  const old = message.replaces && shown.get(message.replaces);
  if (old) {
    fill(old, message);
    if (message.id) shown.set(message.id, old);
    return [];
  }
  let article = message.from === "you" ? takeAsked(message.text) : null;
  const isNew = !article;
  article ??= document.createElement("article");
  article.className = message.from;
  fill(article, message);
  if (message.id) {
    shown.set(message.id, article);
    article.dataset.id = message.id;
  }
  article.dataset.cursor = message.cursor;
  return isNew && (message.text || message.files || message.choices) ? [article] : [];
}

/// A message that this page has sent and already shows.
function takeAsked(text) {
  const waiting = asked.get(text);
  const article = waiting?.shift();
  if (waiting && !waiting.length) asked.delete(text);
  return article?.isConnected ? article : null;
}

function fill(article, message) {
  const body = document.createElement("div");
  body.className = "body";
  if (message.html === undefined) body.textContent = message.text;
  else body.innerHTML = message.html;
  body.querySelectorAll("pre").forEach(addCopy);
  // A wide one is scrolled, also by the keyboard.
  body.querySelectorAll("table").forEach((table) => (table.tabIndex = 0));
  const parts = [body, ...(message.files ?? []).map(fileShown)];
  if (message.choices) parts.push(choicesShown(message));
  const time = document.createElement("time");
  time.dateTime = message.at;
  time.textContent = new Date(message.at).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
  article.replaceChildren(...parts, time);
}

function addCopy(pre) {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  const text = pre.textContent;
  button.onclick = async () => {
    button.textContent = (await copy(text)) ? "Copied" : "Select and copy by hand";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  };
  pre.append(button);
}

/// Without encryption, browsers offer no clipboard to pages of other machines.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

function fileShown({ id, name, is_image }) {
  const line = document.createElement("p");
  if (id === undefined) {
    line.textContent = `📎 ${name}`;
    return line;
  }
  const link = document.createElement("a");
  link.href = `/sessions/${encodeURIComponent(session)}/files/${id}`;
  link.download = name;
  if (is_image) {
    const image = document.createElement("img");
    image.src = link.href;
    image.alt = name;
    image.loading = "lazy";
    link.append(image);
  } else {
    link.textContent = `📎 ${name}`;
  }
  line.append(link);
  return line;
}

function choicesShown(message) {
  const row = document.createElement("div");
  row.className = "choices";
  const id = newId();
  message.choices.forEach((label, choice) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.onclick = async () => {
      row.querySelectorAll("button").forEach((it) => (it.disabled = true));
      try {
        await postUntilHeard("/press", { session, id, message: message.id, choice });
      } catch (error) {
        trouble(error.message);
      }
    };
    row.append(button);
  });
  return row;
}

function isAtEnd() {
  const log = $("log");
  return log.scrollHeight - log.scrollTop - log.clientHeight < 80;
}

function toEnd(wanted) {
  if (wanted) $("log").scrollTop = $("log").scrollHeight;
}

// ---- the composer ----

async function send(text, attached) {
  const article = document.createElement("article");
  article.className = "you waiting";
  fill(article, { text, at: new Date().toISOString(), files: attached.map(({ name }) => ({ name })) });
  $("messages").append(article);
  toEnd(true);
  asked.set(text, [...(asked.get(text) ?? []), article]);
  try {
    await postUntilHeard("/messages", { session, id: newId(), text, files: attached });
    article.classList.remove("waiting");
  } catch (error) {
    article.className = "you failed";
    trouble(error.message);
  }
}

$("composer").onsubmit = (event) => {
  event.preventDefault();
  const text = $("text").value;
  if (uploads) return trouble("The files are still being sent.");
  if (!text.trim() && !files.length) return;
  trouble("");
  send(text, files);
  files = [];
  listAttached();
  $("text").value = "";
  grow();
};
$("stop").onclick = () => {
  stopping = true;
  send("/stop", []);
};
for (const button of $("shows").children) {
  button.onclick = () => {
    closeSide();
    if (button.dataset.list) openList(button.dataset.list);
    else send(button.dataset.says, []);
  };
}
$("text").oninput = grow;
$("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("composer").requestSubmit();
  }
};
document.addEventListener("keydown", (event) => {
  // A list closes by itself.
  if (event.key !== "Escape" || $("panel").open) return;
  if ($("side").classList.contains("open")) closeSide();
  else if (busy) $("stop").click();
});

function grow() {
  const area = $("text");
  area.rows = Math.min(12, area.value.split("\n").length);
}

function trouble(words) {
  $("trouble").textContent = words;
  $("trouble").hidden = !words;
}

// ---- files ----

async function attach(list) {
  for (const file of list) {
    if (files.length + uploads >= 10) return trouble("A message has at most 10 files.");
    if (file.size > FILE_BYTES_MAX) {
      trouble(`${file.name}: a file has at most 50 MB`);
      continue;
    }
    uploads += 1;
    listAttached();
    try {
      const { id } = await ask("/files", { method: "POST", body: file });
      files.push({ id, name: file.name });
    } catch (error) {
      trouble(`${file.name}: ${error.message}`);
    }
    uploads -= 1;
    listAttached();
  }
}

function listAttached() {
  const items = files.map((file, place) => {
    const item = document.createElement("li");
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "quiet";
    remove.textContent = "✕";
    remove.setAttribute("aria-label", `Remove ${file.name}`);
    remove.onclick = () => {
      files.splice(place, 1);
      listAttached();
    };
    item.append(file.name, remove);
    return item;
  });
  if (uploads) {
    const item = document.createElement("li");
    item.textContent = "Sending files…";
    items.push(item);
  }
  $("attached").replaceChildren(...items);
}

$("file").onchange = () => {
  attach([...$("file").files]);
  $("file").value = "";
};
$("text").onpaste = (event) => {
  if (event.clipboardData.files.length) {
    event.preventDefault();
    attach([...event.clipboardData.files]);
  }
};
for (const name of ["dragover", "dragleave", "drop"]) {
  $("chat").addEventListener(name, (event) => {
    event.preventDefault();
    $("composer").classList.toggle("over", name === "dragover");
    if (name === "drop") attach([...event.dataTransfer.files]);
  });
}

// ---- the start ----

// It has the page's own files ready while the daemon is away. Browsers offer it to this machine and to encrypted pages.
navigator.serviceWorker?.register("/sw.js").catch(() => {});
window.addEventListener("load", () => {
  const code = CODE.exec(location.hash)?.[1];
  if (code) offerSignIn(code);
  else start();
});
