// The page: what is chosen, what is asked of the worker, what is shown.

import { DEFAULTS } from "./painter.js";

const PREVIEW = 768; // pixels, the longest side of what is shown
const QUICK = 256; // of what is shown while a slider moves
const THUMBNAIL = 128;
const RESTS = 350; // milliseconds after which a slider rests
const FIRST = ["strength", "brush_size"]; // options that are shown first; the rest lies under More

// For measuring: run=wasm or webgpu, threads=N, fill=no (styles keep their pictures).
const query = new URLSearchParams(location.search);

const find = (id) => document.getElementById(id);
const say = (text) => { find("status").textContent = text; };

function complain(text) {
  find("problem").textContent = text ?? "";
  find("problem").hidden = !text;
}

// --- The worker

let worker;
let number = 0;
const waiting = new Map();

class Stopped extends Error {}

function ask(kind, given, { tell } = {}) {
  const message = { id: ++number, kind, ...given };
  const promise = new Promise((resolve, reject) => {
    waiting.set(message.id, { message, resolve, reject, tell });
    worker.postMessage(message);
  });
  promise.id = message.id;
  promise.catch(() => {});
  return promise;
}

function cancel(promise) {
  const job = waiting.get(promise?.id);
  if (!job) return;
  job.cancelled = true;
  worker.postMessage({ cancel: promise.id });
}

function start() {
  worker = new Worker("worker.js", { type: "module" });
  worker.onmessage = ({ data }) => {
    if (data.provider) {
      how = data.provider;
      document.body.dataset.runs = `${how} ${threads}`;
      return say("The graphics processor was lost; the processor goes on.");
    }
    const job = waiting.get(data.id);
    if (!job) return;
    if ("done" in data) return job.tell?.(data.done);
    waiting.delete(data.id);
    if (data.cancelled) job.reject(new Stopped());
    else if (data.error) job.reject(new Error(data.error));
    else job.resolve(data.result);
  };
  worker.onerror = (event) => {
    event.preventDefault();
    failAll("This browser can't run what paints (WebAssembly or module workers are missing).");
  };
}

function failAll(text) {
  for (const job of waiting.values()) job.reject(new Error(text));
  waiting.clear();
}

let how; // what the worker runs on: "webgpu" or "wasm"
let threads;

const open = (tell) => ask("open", { provider: how, threads }, { tell });

// Ends the painting of a file at once. What the network is at can't be told to stop, so another
// worker takes this one's place, is told what this one knew, and does what this one had yet to do.
function stop() {
  const stopped = waiting.get(saving?.id);
  if (!stopped) return;
  waiting.delete(saving.id);
  worker.terminate();
  const rest = [...waiting.values()];
  start();
  open().catch((error) => complain(error.message));
  for (const [key, file] of own) ask("painting", { key, file });
  ask("photo", { key: photoKey(), file: photo.file, side: PREVIEW });
  for (const { message, cancelled } of rest) {
    worker.postMessage(message);
    if (cancelled) worker.postMessage({ cancel: message.id });
  }
  stopped.reject(new Stopped());
}

// --- What is chosen

let about;
let look;
let style;
let photo = null; // {key, file, name, width, height, preview}
let lastResult = null;
const own = new Map(); // an own painting's key -> its file
const undone = [];
const photoKey = () => photo.key;

const choices = () => JSON.stringify({ look, style });

const nameOf = (chosen) => chosen.split(":")[0];

function change(what, { remember = true } = {}) {
  const before = choices();
  what();
  if (choices() === before) return;
  if (remember) {
    undone.push(before);
    if (undone.length > 100) undone.shift();
  }
  find("undo").disabled = !undone.length;
  show();
}

function undo() {
  if (!undone.length) return;
  ({ look, style } = JSON.parse(undone.pop()));
  find("undo").disabled = !undone.length;
  show();
  paint();
}

// The controls as what is chosen says.
function show() {
  showVariants();
  for (const button of radios("styles")) check(button, nameOf(button.dataset.style) === nameOf(style));
  for (const button of radios("variants")) check(button, button.dataset.style === style);
  for (const [name, value] of Object.entries(look)) {
    const control = find(`look-${name}`);
    control.value = value ?? "";
    const output = control.parentElement.querySelector("output");
    if (output) output.textContent = shownValue(name, value);
  }
}

const radios = (group) => [...find(group).querySelectorAll("[role=radio]")];

function check(button, checked) {
  button.setAttribute("aria-checked", checked);
  button.tabIndex = checked ? 0 : -1;
}

const shownValue = (name, value) => (name === "strength" ? `${Math.round(100 * value)} %` : value.toFixed(2));

// --- Painting

let painting = null; // the job that makes what is shown
let filling = null; // the one that fills in the styles' pictures
let saving = null;
let resting = 0;

function progress(done) {
  const bar = find("progress");
  bar.classList.toggle("idle", done === null);
  if (done === null || done === 0) bar.removeAttribute("value");
  if (done) bar.value = done;
}

async function paint({ quick = false } = {}) {
  if (!photo) return;
  clearTimeout(resting);
  cancel(painting);
  cancel(filling);
  const side = quick ? QUICK : undefined;
  const mine = ask("paint", { key: photoKey(), style, look, side }, { tell: quick ? undefined : progress });
  painting = mine;
  find("painted").setAttribute("aria-busy", "true");
  if (!quick) {
    say("Painting …");
    progress(0);
  }
  const began = performance.now();
  try {
    const { picture } = await mine;
    if (painting !== mine) return;
    draw(find("painted"), picture);
    complain();
    if (!quick) {
      lastResult = picture;
      const { duration } = performance.measure("painting", { start: began });
      say(`${labelOf(style)}, painted in ${(duration / 1000).toFixed(1)} s.`);
    }
  } catch (error) {
    if (!(error instanceof Stopped) && painting === mine) {
      complain(error.message);
      say("Nothing was painted.");
    }
  } finally {
    if (painting === mine) {
      painting = null;
      find("painted").removeAttribute("aria-busy");
      if (!quick) {
        progress(null);
        fill();
      }
    }
  }
}

// While a slider moves a small picture is painted, one at a time; the whole when it rests.
function moved() {
  if (!painting) paint({ quick: true });
  clearTimeout(resting);
  resting = setTimeout(() => paint(), RESTS);
}

// Each style's button shows the very photo, one after the other.
async function fill() {
  if (query.get("fill") === "no") return;
  const key = photoKey();
  for (const button of [...radios("styles"), ...radios("variants")]) {
    if (button.dataset.filled === key) continue;
    if (painting || saving || photoKey() !== key) return;
    const mine = ask("paint", { key, style: button.dataset.style, look: DEFAULTS(about), side: THUMBNAIL });
    filling = mine;
    try {
      const { picture } = await mine;
      if (photoKey() !== key) return;
      draw(button.querySelector("canvas"), picture);
      button.dataset.filled = key;
    } catch (error) {
      if (error instanceof Stopped) return;
    }
  }
  document.body.dataset.filled = key;
}

function draw(canvas, picture) {
  canvas.width = picture.width;
  canvas.height = picture.height;
  canvas.getContext("2d").putImageData(new ImageData(picture.data, picture.width, picture.height), 0, 0);
}

// --- Photos and paintings

// Shows a photo where its painting will be.
async function seen(file) {
  const image = await createImageBitmap(file);
  const canvas = find("painted");
  [canvas.width, canvas.height] = [image.width, image.height];
  find("frame").style.setProperty("--ratio", image.width / image.height);
  canvas.getContext("2d").drawImage(image, 0, 0);
}

async function take(file) {
  if (!file) return;
  complain();
  say(`Opening ${file.name || "the photo"} …`);
  progress(0);
  cancel(painting);
  cancel(filling);
  try {
    const key = `photo${++number}`;
    const { width, height, preview } = await ask("photo", { key, file, side: PREVIEW });
    photo = { key, file, name: (file.name || "photo").replace(/\.[^.]*$/, ""), width, height };
    document.body.dataset.photo = key;
    find("frame").style.setProperty("--ratio", width / height);
    draw(find("before"), preview);
    draw(find("painted"), preview);
    await paint();
  } catch (error) {
    progress(null);
    if (error instanceof Stopped) return;
    complain(error.message);
    say(photo ? "The photo before it is still here." : "Choose another photo.");
  }
}

async function takePainting(file) {
  if (!file) return;
  complain();
  say(`Looking at ${file.name || "the painting"} …`);
  const key = `own${++number}`;
  try {
    await ask("painting", { key, file });
    own.set(key, file);
    addStyle(key, (file.name || "Yours").replace(/\.[^.]*$/, "").slice(0, 24));
    change(() => { style = key; });
    find("styles").querySelector(`[data-style="${key}"]`).focus();
    await paint();
  } catch (error) {
    complain(error.message);
    say("The style is as it was.");
  }
}

// --- Keeping it

const slug = (text) => text.replace(/[^\p{L}\p{N}_-]+/gu, "-").slice(0, 60);

let ready = null; // the file made last, and what it was made of

// The painting's file, of the size and kind that are chosen; null: it was cancelled, or failed.
async function made() {
  const side = Number(find("size").value);
  const type = find("type").value;
  const wish = JSON.stringify([photoKey(), style, look, side, type]);
  if (ready?.wish === wish) return ready.file;
  cancel(filling);
  saving = ask("file", { key: photoKey(), style, look, side, type }, { tell: progress });
  find("cancel").hidden = false;
  say("Painting it at its full size …");
  progress(0);
  try {
    const { blob, width, height } = await saving;
    const ending = type === "image/png" ? "png" : "jpg";
    const name = `${slug(photo.name)}-${slug(labelOf(style).toLowerCase())}.${ending}`;
    say(`Ready: ${width} × ${height} pixels.`);
    ready = { wish, file: new File([blob], name, { type }) };
    return ready.file;
  } catch (error) {
    if (error instanceof Stopped) say("Cancelled.");
    else {
      complain(error.message);
      say("No file was made.");
    }
    return null;
  } finally {
    saving = null;
    find("cancel").hidden = true;
    progress(null);
    fill();
  }
}

async function download() {
  if (!photo || saving) return;
  const file = await made();
  if (!file) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = file.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

async function copy() {
  if (!lastResult) return;
  try {
    const blob = new Promise((resolve) => find("painted").toBlob(resolve, "image/png"));
    await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
    say("Copied.");
  } catch {
    complain("This browser doesn't let a page copy a picture.");
  }
}

async function share() {
  if (!photo || saving) return;
  const file = await made();
  if (!file) return;
  try {
    await navigator.share({ files: [file] });
  } catch (error) {
    // A browser shares what it was tapped for a few seconds ago at most; the file is kept.
    if (error.name === "NotAllowedError") say("The picture is ready: tap Share once more.");
    else if (error.name !== "AbortError") complain("This browser could not share the picture; download it instead.");
  }
}

// --- Controls

const labels = new Map();
const labelOf = (name) => labels.get(name) ?? name;
const NAMES = { cezanne: "Cézanne", monet: "Monet", ukiyoe: "Ukiyo-e", vangogh: "Van Gogh" };

function styleButton(name, label, shown = label) {
  labels.set(name, label);
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("role", "radio");
  button.dataset.style = name;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 8;
  canvas.setAttribute("aria-hidden", "true");
  const text = document.createElement("span");
  text.textContent = shown;
  button.append(canvas, text);
  button.addEventListener("click", () => {
    change(() => { style = name; });
    paint();
  });
  return button;
}

function addStyle(name, label, thumbnail = null) {
  const button = styleButton(name, label);
  find("styles").insertBefore(button, find("styles").querySelector(".add"));
  if (thumbnail) {
    const canvas = button.querySelector("canvas");
    const image = new Image();
    image.onload = () => {
      if (button.dataset.filled) return;
      canvas.width = image.width;
      canvas.height = image.height;
      canvas.getContext("2d").drawImage(image, 0, 0);
    };
    image.src = `model/${thumbnail}`;
  }
}

const variants = new Map(); // a style's name -> the buttons of its codes

function showVariants() {
  const name = nameOf(style);
  const codes = about.styles.find((one) => one.name === name)?.codes ?? [];
  const group = find("variants");
  group.hidden = find("variants-title").hidden = codes.length < 2;
  if (group.hidden) return group.replaceChildren();
  if (group.dataset.of === name && group.childElementCount) return;
  if (!variants.has(name)) {
    const label = labelOf(`${name}:1`);
    variants.set(name, codes.map((_, i) => {
      const button = styleButton(`${name}:${i + 1}`, i ? `${label} ${i + 1}` : label, String(i + 1));
      button.setAttribute("aria-label", `${label}, variant ${i + 1}`);
      return button;
    }));
  }
  group.dataset.of = name;
  find("variants-title").textContent = `Variants of ${labelOf(`${name}:1`)}`;
  group.replaceChildren(...variants.get(name));
  delete document.body.dataset.filled; // there are more pictures to make
}

function addOwnButton() {
  const add = document.createElement("button");
  add.type = "button";
  add.className = "add";
  const plus = document.createElement("span");
  plus.className = "plus";
  plus.textContent = "+";
  plus.setAttribute("aria-hidden", "true");
  const text = document.createElement("span");
  text.textContent = "Yours …";
  add.setAttribute("aria-label", "A painting of yours …");
  add.append(plus, text);
  add.addEventListener("click", () => find("painting-file").click());
  find("styles").append(add);
}

function addControls() {
  for (const [name, option] of Object.entries(about.options)) {
    const place = find(FIRST.includes(name) ? "sliders" : "more");
    place.append("choices" in option ? select(name, option) : slider(name, option));
  }
}

function slider(name, option) {
  const box = document.createElement("div");
  box.className = "slider";
  const label = document.createElement("label");
  label.textContent = option.label;
  const output = document.createElement("output");
  const input = document.createElement("input");
  Object.assign(input, { type: "range", min: option.range[0], max: option.range[1], step: option.step ?? 0.05, id: `look-${name}` });
  label.htmlFor = output.htmlFor = input.id;
  const info = document.createElement("small");
  info.id = `info-${name}`;
  info.textContent = option.info;
  input.setAttribute("aria-describedby", info.id);
  let began = null;
  input.addEventListener("input", () => {
    began ??= choices();
    change(() => { look[name] = Number(input.value); }, { remember: false });
    moved();
  });
  input.addEventListener("change", () => {
    if (began && began !== choices()) {
      undone.push(began);
      find("undo").disabled = false;
    }
    began = null;
  });
  box.append(label, output, input, info);
  return box;
}

const CHOICES = {
  keep_color: { "": "no", luminance: "every pixel's", matched: "as a whole" },
};

function select(name, option) {
  const box = document.createElement("label");
  box.className = "pick";
  const control = document.createElement("select");
  control.id = `look-${name}`;
  for (const choice of option.choices) {
    const entry = document.createElement("option");
    entry.value = choice ?? "";
    entry.textContent = option.words[choice] ?? CHOICES[name]?.[choice ?? ""] ?? String(choice);
    control.append(entry);
  }
  control.addEventListener("change", () => {
    const chosen = option.choices.find((choice) => String(choice ?? "") === control.value);
    change(() => { look[name] = chosen; });
    paint();
  });
  box.append(option.label, control);
  return box;
}

function wire() {
  find("choose").addEventListener("click", () => find("photo-file").click());
  find("camera").addEventListener("click", camera);
  find("unlens").addEventListener("click", () => find("lens").close());
  find("snap").addEventListener("click", snap);
  find("lens").addEventListener("close", () => {
    for (const track of find("view").srcObject?.getTracks() ?? []) track.stop();
    find("view").srcObject = null;
  });
  for (const [id, then] of [["photo-file", take], ["camera-file", take], ["painting-file", takePainting]]) {
    find(id).addEventListener("change", ({ target }) => {
      const [file] = target.files;
      then(file).finally(() => { target.value = ""; });
    });
  }
  find("compare").addEventListener("input", ({ target }) => compare(Number(target.value)));
  find("undo").addEventListener("click", undo);
  find("reset").addEventListener("click", () => {
    change(() => { look = DEFAULTS(about); });
    paint();
  });
  find("download").addEventListener("click", download);
  find("copy").addEventListener("click", copy);
  find("share").addEventListener("click", share);
  find("cancel").addEventListener("click", stop);
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "z" && !event.shiftKey) {
      event.preventDefault();
      undo();
    }
    if (event.key === "Escape") stop();
  });
  addEventListener("paste", ({ clipboardData }) => {
    const file = [...clipboardData.files].find((one) => one.type.startsWith("image/"));
    if (file) take(file);
  });
  let over = 0;
  addEventListener("dragenter", (event) => { event.preventDefault(); over++; find("drop").hidden = false; });
  addEventListener("dragleave", () => { if (!--over) find("drop").hidden = true; });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    over = 0;
    find("drop").hidden = true;
    take(event.dataTransfer.files[0]);
  });
  arrows("styles");
  arrows("variants");
  const probe = new File([""], "a.png", { type: "image/png" });
  find("share").hidden = !navigator.canShare?.({ files: [probe] });
}

// One stop of the tab key for all of a group; arrows go from one to the next.
function arrows(group) {
  find(group).addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const all = radios(group);
    const place = all.indexOf(event.target);
    if (!step || place < 0) return;
    event.preventDefault();
    const next = all[(place + step + all.length) % all.length];
    next.focus();
    next.click();
  });
}

// A phone takes a photo with its own camera; a laptop's is shown here.
async function camera() {
  const isPhone = matchMedia("(pointer: coarse)").matches;
  if (isPhone || !navigator.mediaDevices?.getUserMedia) return find("camera-file").click();
  complain();
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ video: { width: { ideal: 1920 } } });
    find("snap").disabled = true; // until there is something to see
    find("lens").showModal();
    find("view").srcObject = stream;
    await find("view").play();
    find("snap").disabled = false;
  } catch (error) {
    find("lens").close();
    const why = error.name === "NotAllowedError" ? "The camera was not allowed" : "There is no camera here";
    complain(`${why}; choose a photo instead.`);
  }
}

async function snap() {
  const view = find("view");
  if (!view.videoWidth) return;
  const canvas = new OffscreenCanvas(view.videoWidth, view.videoHeight);
  canvas.getContext("2d").drawImage(view, 0, 0);
  const blob = await canvas.convertToBlob({ type: "image/jpeg", quality: 0.95 });
  find("lens").close();
  take(new File([blob], "camera.jpg", { type: "image/jpeg" }));
}

function compare(percent) {
  find("before").style.clipPath = `inset(0 ${100 - percent}% 0 0)`;
  find("line").style.setProperty("--at", `${percent}%`);
  find("compare").setAttribute("aria-valuetext", `${percent} % photo`);
}

async function provider() {
  const wanted = query.get("run");
  if (wanted === "wasm" || !navigator.gpu) return "wasm";
  if (wanted === "webgpu") return wanted;
  const adapter = await navigator.gpu.requestAdapter().catch(() => null);
  return adapter && !adapter.info?.isFallbackAdapter ? "webgpu" : "wasm";
}

// Asks the service worker to keep all that is missing yet for a visit offline, of the runtimes the
// one that this browser needs.
async function keep() {
  if (!("serviceWorker" in navigator)) return;
  navigator.serviceWorker.addEventListener("message", ({ data }) => {
    if (data.kept) document.body.dataset.kept = "true";
  });
  const { active } = await navigator.serviceWorker.ready;
  const files = how === "webgpu"
    ? ["ort.webgpu.min.mjs", "ort-wasm-simd-threaded.asyncify.mjs", "ort-wasm-simd-threaded.asyncify.wasm"]
    : ["ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"];
  active.postMessage({ keep: files.map((name) => `runtime/${name}`) });
}

async function main() {
  if (typeof WebAssembly !== "object" || typeof OffscreenCanvas !== "function") {
    say("");
    progress(null);
    complain("This browser is too old to paint here: it lacks WebAssembly or off-screen canvases.");
    return;
  }
  about = await (await fetch("model/model.json")).json();
  look = DEFAULTS(about);
  style = `${about.styles[0].name}:1`;
  addOwnButton();
  for (const { name, codes } of about.styles) addStyle(`${name}:1`, NAMES[name] ?? name[0].toUpperCase() + name.slice(1), codes[0].thumbnail);
  addControls();
  wire();
  show();
  compare(0);
  start();
  const asked = Number(query.get("threads"));
  const example = await (await fetch("example.jpg")).blob();
  await seen(example); // until the paints are ready
  threads = self.crossOriginIsolated ? asked || Math.min(4, navigator.hardwareConcurrency || 1) : 1;
  how = await provider();
  try {
    await open(progress).catch((error) => {
      if (how === "wasm") throw error;
      how = "wasm";
      worker.terminate();
      start();
      return open(progress);
    });
    document.body.dataset.runs = `${how} ${threads}`;
    keep().catch(() => {});
  } catch (error) {
    progress(null);
    say("");
    complain(error.message);
    return;
  }
  if (!photo) await take(new File([example], "example.jpg", { type: "image/jpeg" }));
}

main().catch((error) => {
  progress(null);
  complain(`The page could not be loaded: ${error.message}`);
});
