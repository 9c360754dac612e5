// Loads each file of the page once, and keeps it for the next time, with or without a network. `make
// site` puts the files' names and digests in place of the word below.

const FILES = "%FILES%"; // name -> digest, as `integrity` has it
const { registration } = self;
const CACHE = `repaint ${registration.scope}`; // the same host may have other pages, and their caches

self.addEventListener("install", (event) => {
  // On a first visit nothing is loaded here: the page waits for this script and loads through it. A
  // newer build comes into use as a whole, when no page shows the older one any more.
  if (registration.active) event.waitUntil(fill(isRuntimeKept));
});

self.addEventListener("activate", (event) => {
  event.waitUntil(tidy().then(() => self.clients.claim()));
});

self.addEventListener("message", (event) => {
  const done = fill((name) => event.data.keep.includes(name));
  event.waitUntil(done.then(() => event.source.postMessage({ kept: true })));
});

self.addEventListener("fetch", (event) => {
  const name = nameOf(event.request);
  if (Object.hasOwn(FILES, name)) event.respondWith(take(name).then(isolated));
});

function nameOf({ method, url }) {
  const { origin, pathname } = new URL(url);
  const address = decodeURI(origin + pathname);
  const base = decodeURI(registration.scope);
  if (method !== "GET" || !address.startsWith(base)) return null;
  const name = address.slice(base.length);
  return name === "" || name === "index.html" ? "./" : name;
}

// A file is kept under its digest, so that what two builds share is loaded once.
const keyOf = (name) => new URL(`${name}?${FILES[name]}`, registration.scope).href;

const coming = new Map(); // name -> what `load` promises

// Sees to it that a file is kept; however many ask for it, it is loaded once. Null, or its response
// where it isn't kept.
function kept(name) {
  if (!coming.has(name)) coming.set(name, load(name).finally(() => coming.delete(name)));
  return coming.get(name);
}

async function load(name) {
  const cache = await caches.open(CACHE);
  if (await cache.match(keyOf(name))) return null;
  const fresh = await built(name).catch(() => null);
  if (fresh?.status !== 200) return fresh ?? fetch(name); // used, but not kept
  try {
    await cache.put(keyOf(name), fresh.clone());
    return null;
  } catch {
    return fresh; // there is no room for it
  }
}

// A file as it was built. What the browser has of it is as good, if it is that; what a host has added
// to the HTML is taken as it is.
function built(name) {
  const integrity = FILES[name];
  return fetch(name, { cache: "force-cache", integrity }).catch(() =>
    fetch(name, { cache: "reload", integrity: name === "./" ? "" : integrity }),
  );
}

async function take(name) {
  const unkept = await kept(name);
  if (unkept) return unkept.clone();
  const cache = await caches.open(CACHE);
  return (await cache.match(keyOf(name))) ?? fetch(name);
}

// Loads what is missing: all but the runtime, of whose kinds a browser needs one.
async function fill(isNeeded) {
  const names = Object.keys(FILES);
  const needed = await Promise.all(names.map((name) => !name.startsWith("runtime/") || isNeeded(name)));
  const unkept = await Promise.all(names.filter((_, i) => needed[i]).map(kept));
  if (unkept.some(Boolean)) throw new Error("not everything could be kept");
}

async function isRuntimeKept(name) {
  const cache = await caches.open(CACHE);
  return cache.match(new URL(name, registration.scope), { ignoreSearch: true }); // of any build
}

async function tidy() {
  const cache = await caches.open(CACHE);
  const wanted = new Set(Object.keys(FILES).map(keyOf));
  const keys = await cache.keys();
  await Promise.all(keys.filter(({ url }) => !wanted.has(url)).map((key) => cache.delete(key)));
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
