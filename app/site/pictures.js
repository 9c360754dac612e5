// Files to pixels and pixels to files, in a worker. A picture is {width, height, data}: RGBA bytes.

export class PictureError extends Error {}

const BAND = 2 ** 22; // pixels that are read from a canvas at a time
export const MOST_PIXELS = 60e6;

// A file as a picture, upright, its colors in sRGB. max: the longest side, pixels.
export async function decoded(blob, max = Infinity, onWhite = false) {
  const name = blob.name ?? "this picture";
  const size = sizeOf(new DataView(await blob.slice(0, 2 ** 20).arrayBuffer().catch(() => new ArrayBuffer(0))));
  if (size) refuseHuge(name, ...size);
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob, { imageOrientation: "from-image" });
  } catch {
    throw new PictureError(await reason(blob, name));
  }
  try {
    refuseHuge(name, bitmap.width, bitmap.height);
    let picture = pixelsOf(bitmap, onWhite);
    if (max < Math.max(bitmap.width, bitmap.height)) picture = shrunk(picture, max);
    return picture;
  } catch (error) {
    if (error instanceof PictureError) throw error;
    throw new PictureError(`There is not enough memory to open ${name}.`);
  } finally {
    bitmap.close();
  }
}

function refuseHuge(name, width, height) {
  const pixels = width * height;
  if (pixels <= MOST_PIXELS) return;
  const size = Math.round(pixels / 1e6);
  throw new PictureError(`${name} has ${size} megapixels; the most this page can hold are ${MOST_PIXELS / 1e6}.`);
}

// Width and height as a PNG's, a JPEG's or a WebP's first bytes tell them: a browser fails on a
// picture that is far too large, and doesn't say that it is the size. null: they don't.
function sizeOf(head) {
  const length = head.byteLength;
  if (length >= 24 && head.getUint32(0) === 0x89504e47) return [head.getUint32(16), head.getUint32(20)];
  if (length >= 30 && head.getUint32(8) === 0x57454250 && head.getUint32(12) === 0x56503858) {
    return [1 + (head.getUint32(24, true) & 0xffffff), 1 + (head.getUint32(26, true) >>> 8)];
  }
  if (length < 4 || head.getUint16(0) !== 0xffd8) return null;
  for (let at = 2; at + 9 < length && head.getUint8(at) === 0xff; at += 2 + head.getUint16(at + 2)) {
    const kind = head.getUint8(at + 1);
    const isFrame = kind >= 0xc0 && kind <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(kind);
    if (isFrame) return [head.getUint16(at + 7), head.getUint16(at + 5)];
  }
  return null;
}

async function reason(blob, name) {
  const head = new Uint8Array(await blob.slice(0, 32).arrayBuffer().catch(() => new ArrayBuffer(0)));
  const text = String.fromCharCode(...head);
  if (!head.length) return `${name} is empty.`;
  if (/ftyp(heic|heix|hevc|heim|heis|mif1|msf1)/.test(text)) {
    return `${name} is a HEIC picture, which this browser can't open; save it as JPEG first.`;
  }
  return `${name} is no picture that this browser can open.`;
}

function pixelsOf(bitmap, onWhite) {
  const { width, height } = bitmap;
  const data = new Uint8ClampedArray(4 * width * height);
  const rows = Math.max(1, Math.floor(BAND / width));
  const canvas = new OffscreenCanvas(width, Math.min(rows, height));
  const context = canvas.getContext("2d", { willReadFrequently: true });
  for (let top = 0; top < height; top += rows) {
    const high = Math.min(rows, height - top);
    context.clearRect(0, 0, width, canvas.height);
    if (onWhite) {
      context.fillStyle = "#fff";
      context.fillRect(0, 0, width, canvas.height);
    }
    context.drawImage(bitmap, 0, top, width, high, 0, 0, width, high);
    data.set(context.getImageData(0, 0, width, high).data, 4 * top * width);
  }
  canvas.width = canvas.height = 0;
  return { width, height, data };
}

// Shrunk so that the longest side is `max`, as Pillow's Lanczos does it; colors weighted by alpha.
export function shrunk(picture, max) {
  const scale = max / Math.max(picture.width, picture.height);
  if (scale >= 1) return picture;
  const width = Math.max(1, Math.round(picture.width * scale));
  const height = Math.max(1, Math.round(picture.height * scale));
  const columns = taps(picture.width, width);
  const rows = taps(picture.height, height);
  const half = new Float32Array(4 * width * picture.height);
  for (let y = 0; y < picture.height; y++) {
    for (let x = 0; x < width; x++) {
      const { first, weights } = columns[x];
      let r = 0, g = 0, b = 0, a = 0;
      for (let k = 0; k < weights.length; k++) {
        const from = 4 * (y * picture.width + first + k);
        const share = (weights[k] * picture.data[from + 3]) / 255;
        r += share * picture.data[from];
        g += share * picture.data[from + 1];
        b += share * picture.data[from + 2];
        a += weights[k] * picture.data[from + 3];
      }
      const to = 4 * (y * width + x);
      half[to] = r;
      half[to + 1] = g;
      half[to + 2] = b;
      half[to + 3] = a;
    }
  }
  const data = new Uint8ClampedArray(4 * width * height);
  for (let y = 0; y < height; y++) {
    const { first, weights } = rows[y];
    for (let x = 0; x < width; x++) {
      const sum = [0, 0, 0, 0];
      for (let k = 0; k < weights.length; k++) {
        const from = 4 * ((first + k) * width + x);
        for (let c = 0; c < 4; c++) sum[c] += weights[k] * half[from + c];
      }
      const to = 4 * (y * width + x);
      const alpha = sum[3] / 255;
      for (let c = 0; c < 3; c++) data[to + c] = alpha > 0 ? sum[c] / alpha : 0;
      data[to + 3] = sum[3];
    }
  }
  return { width, height, data };
}

function taps(from, to) {
  const scale = from / to;
  const support = 3 * scale;
  return Array.from({ length: to }, (_, i) => {
    const center = (i + 0.5) * scale;
    const first = Math.max(0, Math.floor(center - support + 0.5));
    const end = Math.min(from, Math.floor(center + support + 0.5));
    const weights = [];
    for (let place = first; place < end; place++) weights.push(lanczos((place + 0.5 - center) / scale));
    const total = weights.reduce((a, b) => a + b, 0);
    return { first, weights: weights.map((weight) => weight / total) };
  });
}

function lanczos(x) {
  if (x === 0) return 1;
  if (Math.abs(x) >= 3) return 0;
  const angle = Math.PI * x;
  return (3 * Math.sin(angle) * Math.sin(angle / 3)) / (angle * angle);
}

// The picture as a file's bytes. type: image/png, image/jpeg or image/webp.
export async function encoded(picture, type) {
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  const context = canvas.getContext("2d");
  if (!context) throw new PictureError("There is not enough memory to make the file.");
  const rows = Math.max(1, Math.floor(BAND / picture.width));
  for (let top = 0; top < picture.height; top += rows) {
    const high = Math.min(rows, picture.height - top);
    const start = 4 * top * picture.width;
    const part = picture.data.subarray(start, start + 4 * high * picture.width);
    context.putImageData(new ImageData(part, picture.width, high), 0, top);
  }
  if (type === "image/jpeg") {
    context.globalCompositeOperation = "destination-over";
    context.fillStyle = "#fff";
    context.fillRect(0, 0, picture.width, picture.height);
  }
  const blob = await canvas.convertToBlob({ type, quality: 0.95 });
  canvas.width = canvas.height = 0;
  return blob;
}
