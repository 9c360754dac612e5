// Keeps the page for the next time, with or without a network. `make site` puts the files' names and
// a digest of them all in place of the two words below, so that another build is another cache.

const VERSION = "%VERSION%";
const FILES = "%FILES%";

self.addEventListener("install", (event) => {
  // The runtime's files come later: of several kinds a browser needs one.
  event.waitUntil(caches.open(VERSION).then((cache) => cache.addAll(FILES)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const old = caches.keys().then((names) => Promise.all(names.filter((n) => n !== VERSION).map((n) => caches.delete(n))));
  event.waitUntil(old.then(() => self.clients.claim()));
});

// What the page has loaded before it was looked after from here; a browser still has it.
self.addEventListener("message", (event) => {
  event.waitUntil(keep(event.data.keep).then(() => event.source.postMessage({ kept: true })));
});

async function keep(names) {
  const cache = await caches.open(VERSION);
  const kept = await Promise.all(names.map((name) => cache.match(name)));
  await cache.addAll(names.filter((_, i) => !kept[i]));
}

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== location.origin) return;
  event.respondWith(answer(event.request));
});

async function answer(request) {
  const cache = await caches.open(VERSION);
  const kept = await cache.match(request, { ignoreSearch: true });
  if (kept) return isolated(kept);
  const fresh = await fetch(request);
  if (fresh.ok && fresh.status === 200) await cache.put(request, fresh.clone());
  return isolated(fresh);
}

// Threads need a page that is isolated from others. A host that can't send these headers has them
// from here, from the second visit on.
function isolated(response) {
  const headers = new Headers(response.headers);
  headers.set("Cross-Origin-Opener-Policy", "same-origin");
  headers.set("Cross-Origin-Embedder-Policy", "require-corp");
  headers.set("Cross-Origin-Resource-Policy", "same-origin");
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}
