// Has the page's own files ready while the daemon is away, so that a page that is loaded then can wait for it. Nothing
// that people have written is kept.
"use strict";

const CACHE = "page";
const FILES = ["/", "/app.css", "/app.js", "/lists.js", "/icon.svg"];

self.addEventListener("install", (event) => {
  const kept = caches.open(CACHE).then((cache) => cache.addAll(FILES));
  event.waitUntil(kept.then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const { origin, pathname } = new URL(event.request.url);
  const isOurs = event.request.method === "GET" && origin === self.location.origin;
  if (isOurs && FILES.includes(pathname)) event.respondWith(serve(event.request, pathname));
});

/// What the daemon serves, or else what it served last. A reverse proxy answers for a daemon that is away.
async function serve(request, path) {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put(path, response.clone());
    if (response.status < 500) return response;
  } catch {
    // The daemon is away.
  }
  return (await cache.match(path)) ?? Response.error();
}
