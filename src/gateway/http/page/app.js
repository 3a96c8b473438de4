// The page: messages come from the store by server-sent events, and each message is sent once.
"use strict";

const $ = (id) => document.getElementById(id);
const MESSAGES_MAX = 600; // of a long conversation, the older ones are loaded again on demand
const HIDDEN_MS = 30000; // a hidden page gives its connection back; nothing is lost
const NO_CONNECTION = "No connection, trying again…";
const CODE = /^#([0-9a-f]{64})$/;

let me = null;
let session = "";
let cursor = "";
let before = null;
let source = null;
let hiddenTimer = 0;
let busy = false;
let files = []; // { id, name } of finished uploads
let uploads = 0;
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
    throw new Error("Signed out.");
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

/// A network that is away delays a message. The id makes a repetition harmless.
async function postUntilHeard(path, body) {
  for (let pause = 1000; ; pause = Math.min(pause * 2, 15000)) {
    try {
      const answer = await post(path, body);
      // The stream says itself when it is connected again.
      if (source?.readyState !== EventSource.CONNECTING) showLink("");
      return answer;
    } catch (error) {
      if (error.final || error.message === "Signed out.") throw error;
      showLink(error.heard ? `${error.message}…` : NO_CONNECTION);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

function showLink(words) {
  $("link").textContent = words;
}

// ---- signing in ----

function signedOut() {
  me = null;
  closeStream();
  $("app").hidden = true;
  $("door").hidden = false;
  $("door-words").textContent =
    "You are signed out. Run `peacrab web` on the machine of the bot to get a link.";
}

function offerSignIn(code) {
  $("door").hidden = false;
  $("door-words").textContent = "This link signs this browser in.";
  const button = $("sign-in");
  button.hidden = false;
  button.focus();
  button.onclick = async () => {
    button.disabled = true;
    try {
      await post("/login", { code });
      history.replaceState(null, "", "/");
      button.hidden = true;
      await start();
    } catch (error) {
      $("door-words").textContent = error.message;
      button.hidden = true;
    }
  };
}

async function start() {
  me = await ask("/me");
  $("door").hidden = true;
  $("app").hidden = false;
  $("who").textContent = `${me.name} (${me.role})`;
  await listSessions();
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
  const names = sessions.map((it) => it.name);
  if (!names.includes("main")) names.push("main");
  if (session && !names.includes(session)) names.unshift(session);
  const wanted = $("filter").value.trim().toLowerCase();
  $("sessions").replaceChildren(
    ...names
      .filter((name) => name.toLowerCase().includes(wanted))
      .map((name) => {
        const button = document.createElement("button");
        button.textContent = name;
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
  document.title = `${name} · Peacrab`;
  $("messages").replaceChildren();
  shown.clear();
  asked.clear();
  showDraft(null);
  setBusy(false);
  try {
    const page = await ask(`/sessions/${encodeURIComponent(name)}`);
    if (session !== name) return;
    page.messages.forEach((message) => $("messages").append(...show(message)));
    cursor = page.cursor;
    before = page.before;
    $("earlier").hidden = !before;
    toEnd(true);
    openStream();
  } catch (error) {
    trouble(error.message);
  }
  listSessions().catch(() => {});
  $("text").focus();
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
  source.onopen = () => showLink("");
  source.onerror = () => {
    showLink(NO_CONNECTION);
    // A browser gives up after a refusal, as when a proxy restarts.
    if (stream.readyState === EventSource.CLOSED && stream === source) {
      setTimeout(() => stream === source && openStream(), 3000);
      ask("/me").catch(() => {});
    }
  };
  source.addEventListener("message", (event) => {
    const message = JSON.parse(event.data);
    cursor = message.cursor;
    const wasAtEnd = isAtEnd();
    $("messages").append(...show(message));
    if (message.from === "bot" && !message.replaces) showDraft(null);
    while ($("messages").children.length > MESSAGES_MAX) trimOldest();
    toEnd(wasAtEnd);
  });
  source.addEventListener("draft", (event) => {
    const wasAtEnd = isAtEnd();
    showDraft(JSON.parse(event.data).html);
    setBusy(true);
    toEnd(wasAtEnd);
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
  else if (me && !source && session) openStream();
});

function showActivity({ turn, tool, state }) {
  const line = $("activity");
  if (turn === "start") setBusy(true);
  if (turn === "end") setBusy(false);
  if (tool) {
    line.hidden = false;
    const words = { start: "…", done: " ✓", failed: " ✗" };
    line.textContent = tool + words[state];
  }
}

function setBusy(now) {
  busy = now;
  $("stop").hidden = !now;
  if (!now) {
    $("activity").hidden = true;
    showDraft(null);
  }
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
$("stop").onclick = () => send("/stop", []);
for (const button of $("shows").children) {
  button.onclick = () => {
    closeSide();
    send(button.dataset.says, []);
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
  if (event.key !== "Escape") return;
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

const code = CODE.exec(location.hash)?.[1];
if (code) offerSignIn(code);
else start().catch((error) => {
  if (me === null && $("door").hidden) {
    $("door").hidden = false;
    $("door-words").textContent = error.message;
  }
});
