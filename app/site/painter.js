// Paints a picture whole or in tiles, as app/painter.py does.
//
// A picture is {width, height, data}: RGBA bytes. A style is {parts, ground}. A look has the fields
// of app.look.Look.

import { Colors, keptByLuminance, matched, matching } from "./colors.js";
import * as filters from "./filters.js";
import { plan, samples } from "./tiles.js";

export class Cancelled extends Error {}

// Of how many sizes and grounds of photos the content is kept: the one that is shown, the small one
// of a moving slider, and that of the styles' pictures.
const MOST_KEPT = 3;

export const DEFAULTS = (about) =>
  Object.fromEntries(Object.entries(about.options).map(([name, o]) => [name, "choices" in o ? o.choices[0] : 1]));

export class Painter {
  constructor(model) {
    this.model = model;
    this.about = model.about;
    this.kept = new Map();
  }

  // Lets go of what is kept of photos.
  forget() {
    for (const { content } of this.kept.values()) content.dispose?.();
    this.kept.clear();
  }

  // What is made of a photo: what its style wants, more or less; models.Ground.of.
  ground(style, look) {
    const ground = {};
    for (const [name, { by, more, most }] of Object.entries(this.about.ground)) {
      const times = look[by];
      const value = Math.min(times, 1) * style.ground[name] + Math.max(times - 1, 0) * more;
      ground[name] = Math.min(value, most);
    }
    return ground;
  }

  strokeSize(look, height, width) {
    if (look.brush_size !== "auto") return Number(look.brush_size);
    const times = Math.max(height, width) / this.about.own_side;
    const sizes = this.about.options.brush_size.choices.filter((size) => size !== "auto");
    return Math.max(sizes[0], ...sizes.filter((size) => size <= Math.SQRT2 * times));
  }

  // Pixels: what is farther from a pixel of the photo has no part in its painting.
  reach(ground, size) {
    const { about } = this;
    let reach = about.network.reach;
    if (ground.flatten > 0) reach += about.simplification.reach;
    if (ground.register > 0) reach += about.registration.reach;
    if (ground.faces > 0) reach = Math.max(reach + about.faces.read, about.faces.counted + about.faces.read);
    if (size > 1) reach = size * (reach + about.enlargement.reach);
    if (ground.tone > 0) reach += about.tone.reach;
    if (ground.outlines > 0) reach = Math.max(reach, size > 1 ? size * (about.outlines.reach + 3) : about.outlines.reach);
    if (ground.simplify > 0) reach += about.simplification.reach;
    return reach;
  }

  // The code of a painting, which lies on white: {parts, ground}.
  async encode(painting) {
    const { stride, smallest } = this.about.network;
    const box = { top: 0, left: 0, bottom: painting.height, right: painting.width };
    const [height, width] = [painting.height, painting.width].map((n) => up(Math.max(n, smallest), stride));
    const image = filters.fromPixels(painting, box, height, width);
    const parts = await this.model.codeOf(image.data, height, width);
    return { parts, ground: this.about.own };
  }

  // A painted copy of a picture. tell: called with how much is done, 0 to 1; stop: called between
  // steps, and what it throws ends the painting.
  async paint(picture, style, look, { tell = () => {}, stop = async () => {}, key = null } = {}) {
    const { height, width } = picture;
    const out = { width, height, data: new Uint8ClampedArray(picture.data) };
    if (look.strength === 0) return out;
    const { limits, network } = this.about;
    const size = this.strokeSize(look, height, width);
    const ground = this.ground(style, look);
    const stride = network.stride * size;
    const pixels = height * width;
    // The network sees a photo that larger strokes make smaller: whole, up to what a phone can hold.
    const whole = pixels <= limits.whole && pixels <= 2 ** 20 * size * size;
    const side = whole ? Math.max(height, width) : size > 1 ? limits.tile : limits.tile / 2;
    const tiles = plan(height, width, side, this.reach(ground, size), stride);
    const job = { picture, style, look, ground, size, stop, key: tiles.length === 1 ? key : null };
    let done = 0;
    const steps = tiles.length + (tiles.length > 1 ? 1 : 0);
    const next = async () => {
      tell(++done / steps);
      await stop();
    };
    let held = null;
    if (tiles.length > 1) {
      held = await this.survey(job, pixels);
      await next();
    }
    for (const tile of tiles) {
      const core = await this.paintTile(job, tile, held);
      put(out, core, tile.core);
      await next();
    }
    return out;
  }

  // Statistics that are held in every tile, read from samples; and the map of colors.
  async survey(job, pixels) {
    const { picture, look, size } = job;
    const { limits, network } = this.about;
    const sampled =
      pixels <= limits.whole
        ? pixels
        : Math.min(Math.max(Math.floor(pixels / limits.sampled_share), limits.fewest_sampled), limits.whole);
    const stride = network.stride * size;
    // Where larger strokes leave little of the photo, all of it is read. (Matching colors needs the
    // finished samples too, at full size.)
    const isRead = size > 1 && pixels <= 2 ** 20 * size * size && look.keep_color !== "matched";
    const most = isRead ? pixels : Math.min(size * sampled, 2 ** 19 * size * size);
    const boxes = samples(picture.height, picture.width, most, limits.sample_side * size, stride);
    const small = [];
    for (const box of boxes) {
      small.push(this.seen(job, box));
      await job.stop();
    }
    const [{ height, width }] = small;
    const data = new Float32Array(small.length * 3 * height * width);
    small.forEach((image, i) => data.set(image.data, i * image.data.length));
    const content = await this.model.encode(data, small.length, height, width);
    const { read, picture: painted } = await this.model.generate(content, job.style.parts, look.strength);
    const held = { read, matching: null };
    if (look.keep_color === "matched") {
      const theirs = new Colors();
      const own = new Colors();
      for (let i = 0; i < boxes.length; i++) {
        const raw = painted.subarray(i * 3 * height * width, (i + 1) * 3 * height * width);
        const prepared = this.prepared(job, boxes[i]);
        const opened = look.strength < 1 ? await this.opened(small[i]) : null;
        const finished = this.finished(job, prepared, raw, opened);
        own.add(finished);
        theirs.add(photoOf(picture, boxes[i]));
      }
      held.matching = matching(theirs, own);
    }
    content.dispose?.();
    return held;
  }

  async opened(image) {
    const content = await this.model.encode(image.data, 1, image.height, image.width);
    const { picture } = await this.model.generate(content, null, 0);
    content.dispose?.();
    return picture;
  }

  async paintTile(job, tile, held) {
    const { look, picture } = job;
    const prepared = this.prepared(job, tile.crop);
    const seen = this.reduced(job, prepared);
    const { raw, opened } = await this.network(job, seen, held);
    const finished = this.finished(job, prepared, raw, opened);
    const { core, crop } = tile;
    const painted = filters.cropped(
      finished, core.top - crop.top, core.left - crop.left, core.bottom - core.top, core.right - core.left,
    );
    if (!look.keep_color) return painted;
    const photo = photoOf(picture, core);
    if (look.keep_color === "luminance") return keptByLuminance(photo, painted, this.about.luma);
    const colors = held?.matching ?? matching(sumsOf(photo), sumsOf(painted));
    return matched(painted, colors);
  }

  // What the network makes of a part of a photo: in a style, and, short of full strength, with its
  // hops open. Of a photo that was painted just now both are kept, so that what is done afterwards
  // can be done again at once, and its content, for another style or strength.
  async network(job, seen, held) {
    const { style, look } = job;
    const kept = await this.contentOf(job, seen);
    try {
      if (kept.style !== style || kept.strength !== look.strength) {
        await job.stop();
        const { picture: raw } = await this.model.generate(kept.content, style.parts, look.strength, held?.read);
        Object.assign(kept, { style, strength: look.strength, raw });
        await job.stop();
      }
      if (look.strength === 1) return { raw: kept.raw, opened: null };
      kept.opened ??= (await this.model.generate(kept.content, null, 0)).picture;
      return kept;
    } finally {
      if (!kept.key) kept.content.dispose?.();
    }
  }

  async contentOf(job, seen) {
    const { ground } = job;
    const key = job.key && JSON.stringify([job.key, job.size, ground.simplify, ground.strokes, seen.height, seen.width]);
    let kept = key && this.kept.get(key);
    if (!kept) kept = { key, content: await this.model.encode(seen.data, 1, seen.height, seen.width) };
    if (!key) return kept;
    this.kept.delete(key); // the one used last comes last
    this.kept.set(key, kept);
    for (const [oldest, { content }] of this.kept) {
      if (this.kept.size <= MOST_KEPT) break;
      content.dispose?.();
      this.kept.delete(oldest);
    }
    return kept;
  }

  // A part of the photo at its own size, padded for the network, with less detail.
  prepared(job, box) {
    const { picture, ground, size } = job;
    const { stride, smallest } = this.about.network;
    const height = up(Math.max(box.bottom - box.top, smallest * size), stride * size);
    const width = up(Math.max(box.right - box.left, smallest * size), stride * size);
    const image = filters.fromPixels(picture, box, height, width);
    const photo = filters.simplified(image, ground.simplify, this.about.simplification);
    return { photo, light: filters.luma(photo, this.about.luma), box };
  }

  seen(job, box) {
    const { size } = job;
    const rows = box.bottom - box.top;
    // By bands, where it is much: only what is reduced is kept.
    const band = Math.max(1, Math.floor((2 ** 20) / (box.right - box.left) / size)) * size * 4;
    if (rows <= band || !size) return this.reduced(job, this.prepared(job, box));
    const { reach } = this.about.simplification;
    const margin = up(reach, 4 * size);
    const parts = [];
    for (let top = box.top; top < box.bottom; top += band) {
      const bottom = Math.min(top + band, box.bottom);
      const first = Math.max(box.top, top - margin);
      const last = Math.min(box.bottom, bottom + margin);
      const one = { ...box, top: first, bottom: last };
      const { photo } = this.prepared(job, one);
      const small = filters.blockMeans(photo, size);
      const start = (top - first) / size;
      const end = bottom === box.bottom ? small.height : start + (bottom - top) / size;
      parts.push(filters.cropped(small, start, 0, end - start, small.width));
    }
    const height = parts.reduce((sum, part) => sum + part.height, 0);
    const whole = filters.map(3, height, parts[0].width);
    for (let c = 0; c < 3; c++) {
      let to = c * height * whole.width;
      for (const part of parts) {
        const area = part.height * part.width;
        whole.data.set(part.data.subarray(c * area, (c + 1) * area), to);
        to += area;
      }
    }
    return this.grounded(job, whole, box);
  }

  reduced(job, { photo, box }) {
    return this.grounded(job, filters.blockMeans(photo, job.size), box);
  }

  grounded(job, small, box) {
    const { network, canvas, strokes } = this.about;
    if (!network.strokes) return small;
    const amount = network.strokes * job.ground.strokes;
    const top = Math.floor(box.top / job.size);
    const left = Math.floor(box.left / job.size);
    return filters.grounded(small, this.model.canvas.strokes, canvas.side, amount, top, left, strokes);
  }

  // What the network has painted of a part of the photo, finished: models.finish.AFTER.
  finished(job, { photo, light, box }, raw, opened) {
    const { about } = this;
    const { ground, size, look } = job;
    const { strength } = look;
    const rows = box.bottom - box.top;
    const columns = box.right - box.left;
    const [paddedHeight, paddedWidth] = [photo.height / size, photo.width / size];
    const height = Math.ceil(rows / size);
    const width = Math.ceil(columns / size);
    let painted = filters.map(3, paddedHeight, paddedWidth, raw);
    painted = filters.cropped(painted, 0, 0, height, width);
    if (painted.data === raw) painted = filters.map(3, height, width, raw.slice()); // it is kept
    if (opened) {
      const own = filters.cropped(filters.map(3, paddedHeight, paddedWidth, opened), 0, 0, height, width);
      const given = filters.blockMeans(photoOf(job.picture, box), size);
      for (let i = 0; i < painted.data.length; i++) {
        painted.data[i] += (1 - strength) * (given.data[i] - own.data[i]);
      }
    }
    filters.clamp(painted.data);
    painted = filters.simplified(painted, strength * ground.flatten, about.simplification);
    // What the network's own scale is enough for is done there.
    const less = size > 1 ? filters.blockMeans(photo, size) : photo;
    const shown = size > 1 ? filters.luma(less, about.luma) : light;
    if (ground.register > 0) {
      painted = filters.registered(painted, less, strength * ground.register, about.registration, about.luma);
    }
    if (ground.faces > 0) {
      const share = filters.skin(less, shown, about.faces, about.luma);
      painted = filters.shaded(painted, less, shown, share, ground.faces, strength, about.faces, about.luma);
    }
    if (size > 1) painted = filters.enlargedAsPhoto(painted, light, size, about.enlargement);
    if (ground.tint > 0) filters.tinted(painted, photo, light, strength * ground.tint);
    if (ground.tone > 0) filters.toned(painted, light, strength * ground.tone, about.tone, about.luma);
    if (ground.grain > 0) {
      const { canvas } = this.model;
      const amount = strength * ground.grain * (size > 1 ? about.grain.enlarged : 1);
      filters.grained(painted, canvas.grain, about.canvas.side, amount, box.top, box.left, size);
    }
    if (ground.outlines > 0) {
      filters.printed(painted, filters.ink(less, shown, size, about.outlines), strength * ground.outlines);
    }
    return filters.cropped(painted, 0, 0, rows, columns);
  }
}

const up = (length, stride) => Math.ceil(length / stride) * stride;

function photoOf(picture, box) {
  return filters.fromPixels(picture, box, box.bottom - box.top, box.right - box.left);
}

function sumsOf(picture) {
  const colors = new Colors();
  colors.add(picture);
  return colors;
}

function put(out, painted, box) {
  const area = painted.height * painted.width;
  const { data } = painted;
  const pixels = out.data; // clamped, and rounded to the nearest whole number
  for (let y = 0; y < painted.height; y++) {
    let to = 4 * ((box.top + y) * out.width + box.left);
    for (let x = 0, i = y * painted.width; x < painted.width; x++, i++, to += 4) {
      pixels[to] = (data[i] + 1) * 127.5;
      pixels[to + 1] = (data[area + i] + 1) * 127.5;
      pixels[to + 2] = (data[2 * area + i] + 1) * 127.5;
    }
  }
}
