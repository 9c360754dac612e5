// Where pictures are painted: one worker, one job at a time. What it is asked and answers are
// messages {id, ...}; see `ask` in page.js.

import { Model } from "./model.js";
import { Cancelled, Painter } from "./painter.js";
import { decoded, encoded, PictureError, shrunk } from "./pictures.js";

const photos = new Map(); // name -> {full: File, preview: picture}
const styles = new Map(); // own paintings' codes
let painter = null;
let threads = 1;
const cancelled = new Set();
let working = Promise.resolve();

const jobs = {
  // Loads the runtime and the network. provider: "webgpu" or "wasm"; threads: how many.
  async open({ provider, threads: most }, tell) {
    threads = most;
    const ort = await runtime(provider === "webgpu" ? "ort.webgpu.min.mjs" : "ort.wasm.min.mjs");
    const model = await Model.load(ort, new URL("./model/", import.meta.url), provider, tell);
    painter = new Painter(model);
    return {};
  },

  // Reads a photo; its preview's pixels come back.
  async photo({ key, file, side }) {
    const picture = await decoded(file);
    const preview = shrunk(picture, side);
    photos.clear();
    photos.set(key, { file, preview });
    const { width, height } = picture;
    return { width, height, preview: { ...preview, data: preview.data.slice() } };
  },

  // Reads a painting of one's own as a style.
  async painting({ key, file }) {
    const picture = await decoded(file, painter.about.limits.style_side, true);
    styles.set(key, await painter.encode(picture));
    return {};
  },

  // Paints the preview, or a smaller one.
  async paint({ key, style, look, side }, tell, stop) {
    const { preview } = known(key);
    const small = side ? shrunk(preview, side) : preview;
    const result = await painted(small, style, look, { tell, stop, key: `${key}/${small.width}` });
    return { picture: result };
  },

  // Paints the photo at its own size, or up to a longest side, to a file.
  async file({ key, style, look, side, type }, tell, stop) {
    const picture = await decoded(known(key).file, side || Infinity);
    const result = await painted(picture, style, look, { tell, stop });
    return { blob: await encoded(result, type), width: result.width, height: result.height };
  },
};

async function runtime(file) {
  const ort = await import(`./runtime/${file}`);
  ort.env.wasm.wasmPaths = new URL("./runtime/", import.meta.url).href;
  ort.env.wasm.numThreads = threads;
  return ort;
}

function known(key) {
  const photo = photos.get(key);
  if (!photo) throw new Cancelled();
  return photo;
}

async function painted(picture, style, look, options) {
  const code = styles.get(style) ?? (await painter.model.style(...style.split(":")));
  try {
    return await painter.paint(picture, code, look, options);
  } catch (error) {
    if (painter.model.provider !== "webgpu" || error instanceof Cancelled) throw error;
    // The GPU was lost in mid-painting, or is out of memory: the processor goes on, in a runtime of
    // its own, since one that was stopped halfway is of no more use.
    painter.forget();
    painter.model.ort = await runtime("ort.webgpu.min.mjs?again");
    await painter.model.open("wasm");
    postMessage({ provider: "wasm" });
    return painter.paint(picture, code, look, options);
  }
}

function sentence(error) {
  if (error instanceof PictureError) return error.message;
  const text = String(error?.message ?? error);
  if (/memory|allocat|bad_alloc|out of bounds/i.test(text) || error instanceof RangeError) {
    return "There is not enough memory for this; a smaller size may do.";
  }
  return `Something went wrong: ${text.split("\n")[0].slice(0, 200)}`;
}

onmessage = ({ data }) => {
  if (data.cancel !== undefined) {
    cancelled.add(data.cancel);
    return;
  }
  working = working.then(() => run(data));
};

async function run({ id, kind, ...given }) {
  const stop = async () => {
    // Messages that came in the meantime are read here.
    await new Promise((resolve) => setTimeout(resolve));
    if (cancelled.has(id)) throw new Cancelled();
  };
  try {
    await stop();
    const tell = (done) => postMessage({ id, done });
    const result = await jobs[kind](given, tell, stop);
    const data = result.picture?.data ?? result.preview?.data;
    postMessage({ id, result }, data ? [data.buffer] : []);
  } catch (error) {
    postMessage(error instanceof Cancelled ? { id, cancelled: true } : { id, error: sentence(error) });
  } finally {
    cancelled.delete(id);
  }
}
