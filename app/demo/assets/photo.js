const $ = (what) => element.querySelector(what);
const [drop, given, image, bar, wrong] = [".drop", ".given", ".small", "progress", ".wrong"].map($);
const what = props.name; // "photo", "painting", "second_painting"
const key = `picture:${what}`;
const { pictures, store } = repaint;

// source: the file that was chosen, or a smaller one that was kept of it. path: on the server of that
// number. stamp: tells what is chosen from all that was, or will be, after a reload, too.
const empty = () => ({ source: null, turn: 0, crop: null, file: null, preview: null, width: 0, height: 0, side: 0, path: null, server: null, stamp: 0 });
let chosen = empty();
let past = []; // what was painted over, to go back to
let aborting = new AbortController();
let uploading = null;
let sending = null; // once more

function complain(sentence) {
  wrong.textContent = sentence;
  wrong.hidden = !sentence;
}

// One address for each picture: to the brush another one is another photo, on which nothing is drawn.
const addresses = new WeakMap();
function addressOf(picture) {
  if (!addresses.has(picture)) addresses.set(picture, URL.createObjectURL(picture));
  return addresses.get(picture);
}

function show() {
  const there = Boolean(chosen.source || chosen.path);
  given.hidden = $(".about").hidden = !there;
  $(".main span").textContent = there ? props.another : props.choose;
  $(".undo").hidden = !past.length;
  $(".name").textContent = chosen.name ?? "";
  $(".size").textContent = chosen.width ? `${chosen.width} × ${chosen.height} px` : "";
  const url = chosen.preview ? addressOf(chosen.preview) : chosen.url;
  image.hidden = !url;
  if (url) image.src = url;
  else image.removeAttribute("src");
  element.dataset.url = url ?? "";
  if (what === "photo") repaint.brush?.photo(url ?? "");
}

// quietly: nothing is to be painted for its sake.
function tell(value, quietly = false) {
  props.value = value;
  trigger("input");
  setTimeout(() => repaint.director.pictured(what, Boolean(value), quietly));
}

// Made ready and uploaded. Whatever was under way for this place ends.
function place(quietly = false) {
  aborting.abort();
  const { signal } = (aborting = new AbortController());
  const one = chosen;
  complain("");
  bar.hidden = false;
  bar.removeAttribute("value");
  one.name = one.source.name;
  one.path = null;
  if (!quietly) one.stamp = Date.now();
  show();
  uploading = (async () => {
    try {
      const size = what === "photo" ? repaint.director.size() : 1024;
      Object.assign(one, await pictures.prepare(one.source, pictures.side(size), one.turn, one.crop));
      if (signal.aborted) return;
      show();
      store.set(key, { file: one.file, name: one.source.name, width: one.width, height: one.height, side: one.side, stamp: one.stamp });
      if (quietly) repaint.director.measured();
      else repaint.director.pictured(what, false);
      const told = (part) => {
        bar.value = part;
        $(".size").textContent = part < 1 ? `Uploading: ${Math.round(100 * part)} %` : `${one.width || "…"} × ${one.height || "…"} px`;
      };
      const path = await pictures.sent(one.file, told, signal);
      if (signal.aborted) return;
      Object.assign(one, { path, server: repaint.connection.server });
      bar.hidden = true;
      show();
      tell({ path, name: one.name, width: one.width, height: one.height }, quietly);
    } catch (error) {
      if (signal.aborted) return;
      bar.hidden = true;
      complain(error.message);
    }
  })();
  return uploading;
}

function give(file, { keep = false } = {}) {
  if (!keep) past = [];
  chosen = { ...empty(), source: file };
  return place();
}

function remove() {
  aborting.abort();
  uploading = null;
  chosen = empty();
  past = [];
  bar.hidden = true;
  complain("");
  store.remove(key);
  show();
  tell(null);
}

async function editable() {
  // What the browser cannot read itself it has from the server as a picture that it can.
  if (chosen.preview && chosen.source) return true;
  if (!chosen.url) return false;
  const blob = await (await fetch(chosen.url)).blob();
  chosen.source = new File([blob], chosen.name, { type: blob.type });
  return true;
}

// The server has it no longer. Whether it has it then.
function again() {
  sending ??= (async () => {
    if (!chosen.source && chosen.preview) chosen.source = new File([chosen.preview], chosen.name);
    if (chosen.source) await place(true);
    return Boolean(chosen.source && chosen.path);
  })().finally(() => { sending = null; });
  return sending;
}

repaint.photos ??= {};
repaint.photos[what] = {
  get there() { return Boolean(chosen.source || chosen.path); },
  get size() { return [chosen.width, chosen.height]; },
  get url() { return element.dataset.url; },
  get stamp() { return chosen.stamp; },
  give,
  remove,
  complain,
  // Whether it is on the server, as large as that size needs it.
  async ready(size) {
    if (!chosen.source && !chosen.path) return false;
    const needed = pictures.side(size);
    if (chosen.side && what === "photo" && (!needed || needed > chosen.side)) place(true);
    await uploading;
    return chosen.path && chosen.server !== repaint.connection.server ? again() : Boolean(chosen.path);
  },
  again,
  // A result becomes the photo. path: on the server.
  use(one) {
    past.push(chosen);
    aborting.abort();
    chosen = { ...empty(), ...one, server: repaint.connection.server, stamp: Date.now() };
    if (!one.path) { // it has that no longer
      chosen.source = new File([one.preview], one.name, { type: one.preview.type });
      place();
      return;
    }
    complain("");
    bar.hidden = true;
    store.set(key, { file: one.preview, name: one.name, width: one.width, height: one.height, side: 0, stamp: chosen.stamp });
    show();
    tell({ path: one.path, name: one.name, width: one.width, height: one.height });
  },
  // It said nothing.
  failed() { if (repaint.connection.cut && chosen.path) again(); },
  // What the server says of the picture that it was sent.
  looked(answer) {
    if (answer.path !== chosen.path) return;
    if (answer.gone) { again(); return; }
    if (answer.wrong) {
      const { wrong: sentence } = answer;
      remove();
      complain(sentence);
      return;
    }
    if (!chosen.preview && answer.shown) {
      chosen.url = pictures.address(answer.shown);
      [chosen.width, chosen.height] = [answer.width, answer.height];
      show();
    }
    for (const note of answer.notes) repaint.director.say(note);
    repaint.director.measured();
  },
  // What is to be restored, where nothing is chosen yet.
  async kept() {
    const kept = await store.get(key);
    return kept?.file && !chosen.source && !chosen.path ? kept : null;
  },
  async restore(quietly) {
    const kept = await this.kept();
    if (!kept) return false;
    chosen = { ...empty(), source: new File([kept.file], kept.name, { type: kept.file.type }), stamp: kept.stamp };
    await place(quietly);
    if (kept.side && chosen.file) Object.assign(chosen, { width: kept.width, height: kept.height, side: kept.side });
    return true;
  },
};

pictures.given(drop, give);
$(".remove").addEventListener("click", remove);
$(".undo").addEventListener("click", () => {
  const before = past.pop();
  if (!before) return;
  aborting.abort();
  chosen = before;
  show();
  store.set(key, { file: chosen.file ?? chosen.preview, name: chosen.name, width: chosen.width, height: chosen.height, side: chosen.side, stamp: chosen.stamp });
  if (chosen.server === repaint.connection.server) tell({ path: chosen.path, name: chosen.name, width: chosen.width, height: chosen.height });
  else again().then((is) => repaint.director.pictured(what, is));
});
$(".turn").addEventListener("click", async () => {
  if (!(await editable())) return;
  const crop = chosen.crop;
  chosen = { ...chosen, turn: (chosen.turn + 1) % 4, preview: null, crop: crop && [1 - crop[1] - crop[3], crop[0], crop[3], crop[2]] };
  place();
});

// The camera of a computer; a phone offers its own where a file is chosen.
const camera = $(".camera");
if (what === "photo" && navigator.mediaDevices && !matchMedia("(pointer: coarse)").matches) camera.hidden = false;
let stream = null;
function close() {
  stream?.getTracks().forEach((track) => track.stop());
  stream = null;
  $(".shot").hidden = true;
}
camera.addEventListener("click", async () => {
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { width: { ideal: 1920 } } });
  } catch {
    complain("The camera cannot be used.");
    return;
  }
  $(".shot").hidden = false;
  $("video").srcObject = stream;
  await $("video").play();
});
$(".cancel").addEventListener("click", close);
$(".take").addEventListener("click", async () => {
  const video = $("video");
  const canvas = pictures.canvasOf(video.videoWidth, video.videoHeight);
  canvas.getContext("2d").drawImage(video, 0, 0);
  close();
  give(new File([await pictures.blobOf(canvas, "image/jpeg", 0.95)], "camera.jpg", { type: "image/jpeg" }));
});

// Cropping: a frame drawn on the picture, or four edges that keys can move.
const cutting = $(".cutting");
const canvas = $("canvas");
const edges = [...element.querySelectorAll(".edges input")]; // left, right, top, bottom
let shown = null;
function frame() {
  const [left, right, top, bottom] = edges.map((edge) => Number(edge.value) / 100);
  return [left, top, Math.max(0.05, 1 - left - right), Math.max(0.05, 1 - top - bottom)];
}
function draw() {
  if (!shown) return;
  const view = canvas.getContext("2d");
  const [left, top, width, height] = frame();
  view.drawImage(shown, 0, 0);
  view.fillStyle = "rgb(0 0 0 / 60%)";
  view.beginPath();
  view.rect(0, 0, canvas.width, canvas.height);
  view.rect(left * canvas.width, top * canvas.height, width * canvas.width, height * canvas.height);
  view.fill("evenodd");
}
$(".crop").addEventListener("click", async () => {
  if (!(await editable())) return;
  const bitmap = await pictures.decode(chosen.source);
  if (!bitmap) return;
  shown = pictures.drawn(bitmap, 900, chosen.turn);
  bitmap.close();
  [canvas.width, canvas.height] = [shown.width, shown.height];
  for (const edge of edges) edge.value = 0;
  cutting.hidden = false;
  draw();
});
let from = null;
const at = (event) => {
  const box = canvas.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height].map((v) => Math.min(1, Math.max(0, v)));
};
canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); from = at(event); });
canvas.addEventListener("pointermove", (event) => {
  if (!from) return;
  const to = at(event);
  const values = [Math.min(from[0], to[0]), 1 - Math.max(from[0], to[0]), Math.min(from[1], to[1]), 1 - Math.max(from[1], to[1])];
  values.forEach((value, index) => { edges[index].value = Math.round(100 * value); });
  draw();
});
for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { from = null; });
for (const edge of edges) edge.addEventListener("input", draw);
$(".keep").addEventListener("click", () => {
  cutting.hidden = true;
  if (chosen.crop) {
    chosen = { ...chosen, crop: null };
    place();
  }
});
$(".cut").addEventListener("click", () => {
  cutting.hidden = true;
  chosen = { ...chosen, crop: frame() };
  place();
});
show();
