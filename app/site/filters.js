// What is done to a photo before the network and to a painting after it: models/finish and
// models/strokes.py once more, for pictures that lie in plain arrays.
//
// A map is {data: Float32Array, channels, height, width}, channel by channel; values in [-1, 1].
// Every number comes from model.json, where the export put it.

export function map(channels, height, width, data) {
  return { data: data ?? new Float32Array(channels * height * width), channels, height, width };
}

// Pixels (RGBA bytes) of a box of a picture, reflected at its right and lower end up to a size.
export function fromPixels(pixels, box, height, width) {
  const out = map(3, height, width);
  const area = height * width;
  const rows = box.bottom - box.top;
  const columns = box.right - box.left;
  const mirrored = height - rows < rows && width - columns < columns;
  const across = Int32Array.from({ length: width }, (_, x) => 4 * (box.left + inside(x, columns, mirrored)));
  const { data } = pixels;
  for (let y = 0, to = 0; y < height; y++) {
    const row = 4 * pixels.width * (box.top + inside(y, rows, mirrored));
    for (let x = 0; x < width; x++, to++) {
      const from = row + across[x];
      out.data[to] = data[from] / 127.5 - 1;
      out.data[area + to] = data[from + 1] / 127.5 - 1;
      out.data[2 * area + to] = data[from + 2] / 127.5 - 1;
    }
  }
  return out;
}

function inside(place, length, mirrored) {
  if (place < length) return place;
  return mirrored ? 2 * (length - 1) - place : length - 1;
}

// What lies outside [-1, 1] is brought to its ends.
export function clamp(data) {
  for (let i = 0; i < data.length; i++) {
    if (data[i] < -1) data[i] = -1;
    else if (data[i] > 1) data[i] = 1;
  }
}

// The upper left part of a map, or a box of it.
export function cropped(from, top, left, height, width) {
  if (!top && !left && height === from.height && width === from.width) return from;
  const out = map(from.channels, height, width);
  for (let c = 0; c < from.channels; c++) {
    for (let y = 0; y < height; y++) {
      const start = (c * from.height + top + y) * from.width + left;
      out.data.set(from.data.subarray(start, start + width), (c * height + y) * width);
    }
  }
  return out;
}

export function luma(image, weights) {
  const out = map(1, image.height, image.width);
  const area = image.height * image.width;
  const [r, g, b] = weights;
  const from = image.data;
  for (let i = 0; i < area; i++) out.data[i] = r * from[i] + g * from[area + i] + b * from[2 * area + i];
  return out;
}

// Total variation reduced by a few steps: models/finish/simplification.py.
const BAND = 96;
export function simplified(image, amount, { steps, reach }) {
  if (!(amount > 0)) return image;
  const { height, width } = image;
  const out = map(3, height, width);
  for (let top = 0; top < height; top += BAND) {
    const first = Math.max(0, top - reach);
    const bottom = Math.min(height, top + BAND);
    const end = Math.min(height, bottom + reach);
    const band = cropped(image, first, 0, end - first, width);
    const less = variationReduced(band, amount, steps);
    for (let c = 0; c < 3; c++) {
      const start = (c * less.height + top - first) * width;
      out.data.set(less.data.subarray(start, start + (bottom - top) * width), (c * height + top) * width);
    }
  }
  return out;
}

// A pixel's six numbers lie together, its colors' steps down and then across to the next pixel; in
// one sweep over the rows, of x no more than two are there.
function variationReduced(image, amount, steps) {
  const { height, width, data } = image;
  const area = height * width;
  // The last row's steps down and the last column's across stay 0.
  const field = new Float32Array(6 * area);
  const ahead = new Float32Array(6 * area);
  let here = new Float32Array(3 * width + 3);
  let below = new Float32Array(3 * width + 3);
  const pull = 1 / (8 * amount);
  let pace = 1;
  for (let step = 0; step < steps; step++) {
    const next = (1 + Math.sqrt(1 + 4 * pace * pace)) / 2;
    const far = 1 + (pace - 1) / next;
    pace = next;
    lessDivergence(data, ahead, amount, 0, here, height, width);
    for (let y = 0; y < height; y++) {
      const goesDown = y + 1 < height;
      if (goesDown) lessDivergence(data, ahead, amount, y + 1, below, height, width);
      const down = goesDown ? pull : 0;
      for (let column = 0, x = 0, i = 6 * y * width; column < width; column++, x += 3, i += 6) {
        const across = column + 1 < width ? pull : 0;
        const x0 = here[x];
        const x1 = here[x + 1];
        const x2 = here[x + 2];
        const d0 = ahead[i] + down * (below[x] - x0);
        const d1 = ahead[i + 1] + down * (below[x + 1] - x1);
        const d2 = ahead[i + 2] + down * (below[x + 2] - x2);
        const a0 = ahead[i + 3] + across * (here[x + 3] - x0);
        const a1 = ahead[i + 4] + across * (here[x + 4] - x1);
        const a2 = ahead[i + 5] + across * (here[x + 5] - x2);
        const square = d0 * d0 + d1 * d1 + d2 * d2 + a0 * a0 + a1 * a1 + a2 * a2;
        const short = square > 1 ? 1 / Math.sqrt(square) : 1;
        const n0 = d0 * short, n1 = d1 * short, n2 = d2 * short;
        const n3 = a0 * short, n4 = a1 * short, n5 = a2 * short;
        const o0 = field[i], o1 = field[i + 1], o2 = field[i + 2];
        const o3 = field[i + 3], o4 = field[i + 4], o5 = field[i + 5];
        field[i] = n0;
        field[i + 1] = n1;
        field[i + 2] = n2;
        field[i + 3] = n3;
        field[i + 4] = n4;
        field[i + 5] = n5;
        ahead[i] = o0 + far * (n0 - o0);
        ahead[i + 1] = o1 + far * (n1 - o1);
        ahead[i + 2] = o2 + far * (n2 - o2);
        ahead[i + 3] = o3 + far * (n3 - o3);
        ahead[i + 4] = o4 + far * (n4 - o4);
        ahead[i + 5] = o5 + far * (n5 - o5);
      }
      [here, below] = [below, here];
    }
  }
  const out = map(3, height, width);
  for (let y = 0, i = 0; y < height; y++) {
    lessDivergence(data, field, amount, y, here, height, width);
    for (let column = 0; column < width; column++, i++) {
      for (let c = 0; c < 3; c++) out.data[c * area + i] = here[3 * column + c];
    }
  }
  return out;
}

// A row of the image plus `amount` times the field's divergence, its colors together.
function lessDivergence(image, field, amount, y, out, height, width) {
  const area = height * width;
  const above = y ? 6 * width : 0;
  for (let column = 0, x = 0, i = y * width, j = 6 * i; column < width; column++, x += 3, i++, j += 6) {
    let s0 = field[j] + field[j + 3];
    let s1 = field[j + 1] + field[j + 4];
    let s2 = field[j + 2] + field[j + 5];
    if (above) {
      s0 -= field[j - above];
      s1 -= field[j - above + 1];
      s2 -= field[j - above + 2];
    }
    if (column) {
      s0 -= field[j - 3];
      s1 -= field[j - 2];
      s2 -= field[j - 1];
    }
    out[x] = image[i] + amount * s0;
    out[x + 1] = image[area + i] + amount * s1;
    out[x + 2] = image[2 * area + i] + amount * s2;
  }
}

// Means over blocks; at the right and at the lower border, of those that are left.
export function blockMeans(image, size) {
  if (size === 1) return image;
  const { channels, height, width, data } = image;
  const rows = Math.ceil(height / size);
  const columns = Math.ceil(width / size);
  const out = map(channels, rows, columns);
  for (let c = 0; c < channels; c++) {
    for (let y = 0; y < height; y++) {
      const to = (c * rows + Math.floor(y / size)) * columns;
      const from = (c * height + y) * width;
      for (let x = 0; x < width; x++) out.data[to + ((x / size) | 0)] += data[from + x];
    }
    for (let y = 0; y < rows; y++) {
      const high = Math.min(size, height - y * size);
      for (let x = 0; x < columns; x++) {
        out.data[(c * rows + y) * columns + x] /= high * Math.min(size, width - x * size);
      }
    }
  }
  return out;
}

// Maps enlarged bilinearly, their ends repeated; the upper left part of a size.
export function enlarged(maps, times, height, width) {
  const out = map(maps.channels, height, width);
  const { low, high, share } = places(width, times, maps.width);
  const down = places(height, times, maps.height);
  const { data } = maps;
  const row = new Float32Array(maps.width);
  for (let c = 0; c < maps.channels; c++) {
    const start = c * maps.height * maps.width;
    for (let y = 0; y < height; y++) {
      const upper = start + down.low[y] * maps.width;
      const lower = start + down.high[y] * maps.width;
      const v = down.share[y];
      const to = (c * height + y) * width;
      // The row of cells first, and then what lies between them.
      for (let x = 0; x < maps.width; x++) row[x] = data[upper + x] + v * (data[lower + x] - data[upper + x]);
      for (let x = 0; x < width; x++) {
        const left = row[low[x]];
        out.data[to + x] = left + share[x] * (row[high[x]] - left);
      }
    }
  }
  return out;
}

function places(length, times, cells) {
  const low = new Int32Array(length);
  const high = new Int32Array(length);
  const share = new Float32Array(length);
  for (let i = 0; i < length; i++) {
    const place = Math.max(0, (i + 0.5) / times - 0.5);
    low[i] = Math.min(cells - 1, Math.floor(place));
    high[i] = Math.min(cells - 1, low[i] + 1);
    share[i] = place - low[i];
  }
  return { low, high, share };
}

// The same with cubic curves (of the steepness -0.5) through four pixels, or those that there are.
function enlargedSmoothly(image, times) {
  const { channels } = image;
  let from = image;
  for (const vertical of [false, true]) {
    const length = (vertical ? from.height : from.width) * times;
    const out = vertical ? map(channels, length, from.width) : map(channels, from.height, length);
    const cells = vertical ? from.height : from.width;
    for (let i = 0; i < length; i++) {
      const place = (i + 0.5) / times - 0.5;
      const base = Math.floor(place);
      const t = place - base;
      const weights = [outer(1 + t), inner(t), inner(1 - t), outer(2 - t)];
      for (let k = 0; k < 4; k++) if (base - 1 + k < 0 || base - 1 + k >= cells) weights[k] = 0;
      const total = weights[0] + weights[1] + weights[2] + weights[3];
      for (let k = 0; k < 4; k++) weights[k] /= total;
      const taps = weights.map((_, k) => Math.min(cells - 1, Math.max(0, base - 1 + k)));
      for (let c = 0; c < channels; c++) {
        if (vertical) {
          const rows = taps.map((tap) => (c * from.height + tap) * from.width);
          const to = (c * length + i) * from.width;
          for (let x = 0; x < from.width; x++) {
            let sum = 0;
            for (let k = 0; k < 4; k++) sum += weights[k] * from.data[rows[k] + x];
            out.data[to + x] = sum;
          }
        } else {
          for (let y = 0; y < from.height; y++) {
            const row = (c * from.height + y) * from.width;
            let sum = 0;
            for (let k = 0; k < 4; k++) sum += weights[k] * from.data[row + taps[k]];
            out.data[(c * from.height + y) * length + i] = sum;
          }
        }
      }
    }
    from = out;
  }
  return from;
}
const inner = (t) => (1.5 * t - 2.5) * t * t + 1;
const outer = (t) => ((-0.5 * t + 2.5) * t - 4) * t + 2;

// The mean of every window, the border repeated outside.
function windows(maps, radius) {
  const { channels, height, width } = maps;
  const side = 2 * radius + 1;
  const half = map(channels, height, width);
  const out = map(channels, height, width);
  for (let row = 0; row < channels * height; row++) {
    const start = row * width;
    let sum = 0;
    for (let k = -radius; k <= radius; k++) sum += maps.data[start + held(k, width)];
    for (let x = 0; x < width; x++) {
      half.data[start + x] = sum / side;
      sum += maps.data[start + held(x + radius + 1, width)] - maps.data[start + held(x - radius, width)];
    }
  }
  const sums = new Float64Array(width);
  for (let c = 0; c < channels; c++) {
    const start = c * height * width;
    sums.fill(0);
    for (let k = -radius; k <= radius; k++) {
      const row = start + held(k, height) * width;
      for (let x = 0; x < width; x++) sums[x] += half.data[row + x];
    }
    for (let y = 0; y < height; y++) {
      const more = start + held(y + radius + 1, height) * width;
      const less = start + held(y - radius, height) * width;
      const to = start + y * width;
      for (let x = 0; x < width; x++) {
        out.data[to + x] = sums[x] / side;
        sums[x] += half.data[more + x] - half.data[less + x];
      }
    }
  }
  return out;
}
const held = (place, length) => (place < 0 ? 0 : place >= length ? length - 1 : place);

// At every place the line, slope * guide + offset, that fits best: models/finish/guided.py. Slopes
// come first, then as many offsets.
function lines(guide, wanted, radius, edges) {
  const { height, width } = guide;
  const area = height * width;
  const n = wanted.channels;
  const given = map(2 + 2 * n, height, width);
  for (let i = 0; i < area; i++) {
    const g = guide.data[i];
    given.data[i] = g;
    given.data[area + i] = g * g;
    for (let c = 0; c < n; c++) {
      const value = wanted.data[c * area + i];
      given.data[(2 + c) * area + i] = value;
      given.data[(2 + n + c) * area + i] = g * value;
    }
  }
  const means = windows(given, radius);
  const found = map(2 * n, height, width);
  for (let i = 0; i < area; i++) {
    const mean = means.data[i];
    const variance = means.data[area + i] - mean * mean + edges;
    for (let c = 0; c < n; c++) {
      const level = means.data[(2 + c) * area + i];
      const slope = (means.data[(2 + n + c) * area + i] - mean * level) / variance;
      found.data[c * area + i] = slope;
      found.data[(n + c) * area + i] = level - slope * mean;
    }
  }
  return windows(found, radius);
}

// As lines, of a guide in three colors: for each of its colors as many slopes as are wanted, then
// the offsets.
function planes(guide, wanted, radius, edges) {
  const { height, width } = guide;
  const area = height * width;
  const n = wanted.channels;
  const pairs = [[0, 0], [0, 1], [0, 2], [1, 1], [1, 2], [2, 2]];
  const given = map(3 + n + 6 + 3 * n, height, width);
  const put = (channel, i, value) => { given.data[channel * area + i] = value; };
  for (let i = 0; i < area; i++) {
    const g = [guide.data[i], guide.data[area + i], guide.data[2 * area + i]];
    for (let c = 0; c < 3; c++) put(c, i, g[c]);
    for (let c = 0; c < n; c++) put(3 + c, i, wanted.data[c * area + i]);
    for (let p = 0; p < 6; p++) put(3 + n + p, i, g[pairs[p][0]] * g[pairs[p][1]]);
    for (let k = 0; k < 3; k++) {
      for (let c = 0; c < n; c++) put(9 + n + k * n + c, i, g[k] * wanted.data[c * area + i]);
    }
  }
  const means = windows(given, radius);
  const found = map(4 * n, height, width);
  const at = (channel, i) => means.data[channel * area + i];
  for (let i = 0; i < area; i++) {
    const mean = [at(0, i), at(1, i), at(2, i)];
    const s = pairs.map(([j, k], p) => at(3 + n + p, i) - mean[j] * mean[k]);
    const a = s[0] + edges;
    const [, b, c, , e] = s;
    const d = s[3] + edges;
    const f = s[5] + edges;
    const first = [d * f - e * e, c * e - b * f, b * e - c * d];
    const others = [a * f - c * c, b * c - a * e, a * d - b * b];
    const scale = 1 / (a * first[0] + b * first[1] + c * first[2]);
    const inverse = [
      [first[0], first[1], first[2]],
      [first[1], others[0], others[1]],
      [first[2], others[1], others[2]],
    ];
    for (let w = 0; w < n; w++) {
      const level = at(3 + w, i);
      const cross = mean.map((m, k) => at(9 + n + k * n + w, i) - m * level);
      let offset = level;
      for (let j = 0; j < 3; j++) {
        const row = inverse[j];
        const slope = scale * (row[0] * cross[0] + row[1] * cross[1] + row[2] * cross[2]);
        found.data[(j * n + w) * area + i] = slope;
        offset -= slope * mean[j];
      }
      found.data[(3 * n + w) * area + i] = offset;
    }
  }
  return windows(found, radius);
}

// A painting a whole number of times as large, with its photo's edges: models/finish/enlargement.py.
export function enlargedAsPhoto(picture, light, size, { radius, edges }) {
  const height = picture.height * size;
  const width = picture.width * size;
  light = cropped(light, 0, 0, height, width);
  const small = blockMeans(light, size);
  const line = lines(small, picture, radius, edges);
  const area = picture.height * picture.width;
  const own = map(3, picture.height, picture.width);
  for (let c = 0; c < 3; c++) {
    for (let i = 0; i < area; i++) {
      const j = c * area + i;
      own.data[j] = picture.data[j] - line.data[j] * small.data[i];
    }
  }
  const out = enlargedSmoothly(own, size);
  const whole = height * width;
  for (let c = 0; c < 3; c++) {
    const slope = enlarged(channel(line, c), size, height, width).data;
    for (let i = 0; i < whole; i++) {
      const j = c * whole + i;
      out.data[j] = limited(out.data[j] + slope[i] * light.data[i]);
    }
  }
  return out;
}
const limited = (value) => (value < -1 ? -1 : value > 1 ? 1 : value);

function channel(maps, number) {
  const area = maps.height * maps.width;
  return map(1, maps.height, maps.width, maps.data.subarray(number * area, (number + 1) * area));
}

// Chroma moved to the photo's areas: models/finish/registration.py.
export function registered(picture, photo, share, { cell, radius, edges, rim }, weights) {
  const { height, width } = picture;
  const area = height * width;
  photo = cropped(photo, 0, 0, height, width);
  const light = luma(picture, weights);
  const given = map(5, height, width);
  given.data.set(photo.data);
  for (let i = 0; i < area; i++) {
    given.data[3 * area + i] = picture.data[i] - light.data[i];
    given.data[4 * area + i] = picture.data[2 * area + i] - light.data[i];
  }
  const cells = blockMeans(given, cell);
  const few = cells.height * cells.width;
  const guide = map(3, cells.height, cells.width, cells.data.subarray(0, 3 * few));
  const wanted = map(2, cells.height, cells.width, cells.data.subarray(3 * few));
  const found = planes(guide, wanted, radius, edges);
  const said = [0, 1].map((color) => {
    const pick = (number) => enlarged(channel(found, number), cell, height, width).data;
    const total = pick(6 + color);
    for (let k = 0; k < 3; k++) {
      const slope = pick(2 * k + color);
      for (let i = 0; i < area; i++) total[i] += slope[i] * photo.data[k * area + i];
    }
    return total;
  });
  const out = map(3, height, width);
  const [ofRed, ofGreen, ofBlue] = weights;
  for (let i = 0; i < area; i++) {
    const ownRed = given.data[3 * area + i];
    const ownBlue = given.data[4 * area + i];
    const red = said[0][i] - ownRed;
    const blue = said[1][i] - ownBlue;
    const square = red * red + blue * blue;
    const pull = (share * square) / (square + rim * rim);
    const newRed = ownRed + pull * red;
    const newBlue = ownBlue + pull * blue;
    const newGreen = -(ofRed * newRed + ofBlue * newBlue) / ofGreen;
    out.data[i] = limited(light.data[i] + newRed);
    out.data[area + i] = limited(light.data[i] + newGreen);
    out.data[2 * area + i] = limited(light.data[i] + newBlue);
  }
  return out;
}

// A part of the photo's own colors: models/finish/tint.py. Changes the picture.
export function tinted(picture, photo, light, amount) {
  const area = picture.height * picture.width;
  photo = cropped(photo, 0, 0, picture.height, picture.width);
  light = cropped(light, 0, 0, picture.height, picture.width);
  for (let c = 0; c < 3; c++) {
    for (let i = 0; i < area; i++) {
      const j = c * area + i;
      picture.data[j] = limited(picture.data[j] + amount * (photo.data[j] - light.data[i]));
    }
  }
  return picture;
}

// Light and dark where the photo's are: models/finish/tone.py. Changes the picture.
export function toned(picture, light, share, { cell, radius, edges }, weights) {
  const { height, width } = picture;
  const area = height * width;
  light = cropped(light, 0, 0, height, width);
  const own = luma(picture, weights);
  const given = map(2, height, width);
  given.data.set(light.data);
  for (let i = 0; i < area; i++) given.data[area + i] = light.data[i] - own.data[i];
  const cells = blockMeans(given, cell);
  const line = lines(channel(cells, 0), channel(cells, 1), radius, edges);
  const whole = enlarged(line, cell, height, width);
  for (let i = 0; i < area; i++) {
    const more = share * (whole.data[area + i] + whole.data[i] * light.data[i]);
    for (let c = 0; c < 3; c++) picture.data[c * area + i] = limited(picture.data[c * area + i] + more);
  }
  return picture;
}

// How far what lies around a pixel has the colors of skin, 0 to 1: models/finish/faces.py.
export function skin(photo, light, about, weights) {
  const { height, width } = photo;
  const area = height * width;
  const seen = map(1, height, width);
  const halfBlue = 1 / (2 * (1 - weights[2]));
  const halfRed = 1 / (2 * (1 - weights[0]));
  const [leastBlue, mostBlue] = about.blue;
  const [leastRed, mostRed] = about.red;
  const blueRange = Math.exp((leastBlue - mostBlue) / about.soft);
  const redRange = Math.exp((leastRed - mostRed) / about.soft);
  for (let i = 0; i < area; i++) {
    const l = light.data[i];
    // The product of five sigmoids 1 / (1 + exp(-x)); the exponentials of a range's two ends have
    // one product everywhere.
    const dark = Math.exp((about.darkest - l) / about.dark_soft);
    const blue = Math.exp((leastBlue - (photo.data[2 * area + i] - l) * halfBlue) / about.soft);
    const red = Math.exp((leastRed - (photo.data[i] - l) * halfRed) / about.soft);
    seen.data[i] = 1 / ((1 + dark) * (1 + blue) * (1 + blueRange / blue) * (1 + red) * (1 + redRange / red));
  }
  const cells = around(blockMeans(seen, about.cell), about.around);
  for (let i = 0; i < cells.data.length; i++) {
    const counted = (cells.data[i] - about.little) / (about.enough - about.little);
    cells.data[i] = counted < 0 ? 0 : counted > 1 ? 1 : counted;
  }
  return enlarged(cells, about.cell, height, width);
}

const around = (cells, radius) => windows(windows(cells, radius), radius);

// Skin with its photo's shading, and one complexion. share: how far, at every pixel.
export function shaded(picture, photo, light, share, amount, strength, about, weights) {
  const { height, width } = picture;
  const area = height * width;
  photo = cropped(photo, 0, 0, height, width);
  light = cropped(light, 0, 0, height, width);
  share = cropped(share, 0, 0, height, width);
  if (!share.data.some((value) => value > 0)) return picture;
  const own = luma(picture, weights);
  const both = map(2, height, width);
  both.data.set(light.data);
  for (let i = 0; i < area; i++) both.data[area + i] = light.data[i] - own.data[i];
  const fine = blockMeans(both, about.fine);
  const line = enlarged(
    lines(channel(fine, 0), channel(fine, 1), about.radius, about.edges), about.fine, height, width,
  );
  // How far the photo's chroma, red's and blue's, is from the painting's; and its mean over the skin.
  const weighted = map(3, height, width);
  const away = map(2, height, width);
  for (let i = 0; i < area; i++) {
    const w = amount * share.data[i];
    for (const color of [0, 1]) {
      const from = 2 * color * area + i; // red, then blue
      const more = photo.data[from] - light.data[i] - (picture.data[from] - own.data[i]);
      away.data[color * area + i] = more;
      weighted.data[color * area + i] = w * more;
    }
    weighted.data[2 * area + i] = w;
  }
  const cells = around(blockMeans(weighted, about.cell), about.complexion);
  const few = cells.height * cells.width;
  for (let i = 0; i < 2 * few; i++) cells.data[i] /= Math.max(cells.data[2 * few + (i % few)], 1e-3);
  const means = enlarged(map(2, cells.height, cells.width, cells.data.subarray(0, 2 * few)), about.cell, height, width);
  const [ofRed, ofGreen, ofBlue] = weights;
  const out = map(3, height, width, picture.data.slice());
  for (let i = 0; i < area; i++) {
    const w = strength * amount * share.data[i];
    if (!w) continue;
    const more = w * (line.data[area + i] + line.data[i] * light.data[i]);
    const red = w * (away.data[i] - (1 - about.own) * means.data[i]);
    const blue = w * (away.data[area + i] - (1 - about.own) * means.data[area + i]);
    const green = -(ofRed * red + ofBlue * blue) / ofGreen;
    out.data[i] = limited(picture.data[i] + more + red);
    out.data[area + i] = limited(picture.data[area + i] + more + green);
    out.data[2 * area + i] = limited(picture.data[2 * area + i] + more + blue);
  }
  return out;
}

// What of a canvas that repeats, enlarged bilinearly, lies under a picture, times an amount, on all of
// its colors: models/finish/grain.py.
export function grained(picture, paper, side, amount, top, left, size) {
  const { height, width } = picture;
  const down = enlargedLines(height, top, side, size);
  const across = enlargedLines(width, left, side, size);
  const line = new Float32Array(side);
  for (let y = 0; y < height; y++) {
    const above = down.before[y] * side;
    const below = down.after[y] * side;
    for (let x = 0; x < side; x++) {
      line[x] = paper[above + x] + down.share[y] * (paper[below + x] - paper[above + x]);
    }
    for (let x = 0; x < width; x++) {
      const first = line[across.before[x]];
      const more = amount * (first + across.share[x] * (line[across.after[x]] - first));
      for (let c = 0; c < 3; c++) {
        const i = (c * height + y) * width + x;
        picture.data[i] = limited(picture.data[i] + more);
      }
    }
  }
  return picture;
}

// Between which lines of a canvas those of an enlarged one lie, and where: models/periodic.py.
function enlargedLines(count, start, side, size) {
  const before = new Int32Array(count);
  const after = new Int32Array(count);
  const share = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    const part = 2 * (start + i) + 1 - size;
    const first = Math.floor(part / (2 * size));
    before[i] = modulo(first, side);
    after[i] = modulo(first + 1, side);
    share[i] = part / (2 * size) - first;
  }
  return { before, after, share };
}
const modulo = (a, b) => ((a % b) + b) % b;

// The outlines of what a photo shows, 0 to 1: models/finish/outlines.py.
export function ink(photo, light, size, about) {
  const { height, width } = photo;
  const area = height * width;
  const step = blurred(light, about.width);
  const wide = blurred(light, about.around * about.width);
  for (let i = 0; i < area; i++) step.data[i] -= wide.data[i];
  const directions = edges(photo, about);
  const few = directions.columns;
  const small = map(1, height, width);
  const distances = new Float64Array(2 * about.samples);
  const shares = new Float64Array(2 * about.samples);
  let weights = 1;
  for (let sample = 1; sample <= about.samples; sample++) {
    const distance = sample * about.spacing;
    const weight = Math.exp(-((distance / about.length) ** 2) / 2);
    distances.set([distance, -distance], 2 * sample - 2);
    shares.set([weight, weight], 2 * sample - 2);
    weights += 2 * weight;
  }
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const cell = Math.floor(y / about.half) * few + Math.floor(x / about.half);
      const across = directions.across[cell];
      const down = directions.down[cell];
      let total = step.data[y * width + x];
      for (let k = 0; k < distances.length; k++) {
        total += shares[k] * between(step, x + distances[k] * across, y + distances[k] * down);
      }
      small.data[y * width + x] = -total / weights;
    }
  }
  const out = size > 1 ? enlargedSmoothly(small, size) : small;
  for (let i = 0; i < out.data.length; i++) {
    const darker = out.data[i] - about.faintest;
    out.data[i] = darker > 0 ? Math.tanh(about.contrast * darker) : 0;
  }
  return out;
}

function between(image, x, y) {
  const { height, width, data } = image;
  x = x < 0 ? 0 : x > width - 1 ? width - 1 : x;
  y = y < 0 ? 0 : y > height - 1 ? height - 1 : y;
  const left = Math.floor(x);
  const top = Math.floor(y);
  const right = left + 1 < width ? left + 1 : left;
  const upper = top * width;
  const lower = top + 1 < height ? upper + width : upper;
  const u = x - left;
  const a = data[upper + left] + u * (data[upper + right] - data[upper + left]);
  const b = data[lower + left] + u * (data[lower + right] - data[lower + left]);
  return a + (y - top) * (b - a);
}

// The directions of least change, of blocks of `half` pixels a side.
function edges(photo, about) {
  const means = blockMeans(photo, about.half);
  const { height, width } = means;
  const area = height * width;
  const tensor = map(2, height, width);
  for (let c = 0; c < 3; c++) {
    const start = c * area;
    const at = (y, x) => means.data[start + held(y, height) * width + held(x, width)];
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const a = at(y - 1, x - 1), b = at(y - 1, x), d = at(y - 1, x + 1);
        const e = at(y, x - 1), f = at(y, x + 1);
        const g = at(y + 1, x - 1), h = at(y + 1, x), i = at(y + 1, x + 1);
        const across = d - a + 2 * (f - e) + i - g;
        const down = g - a + 2 * (h - b) + i - d;
        tensor.data[y * width + x] += across * across - down * down;
        tensor.data[area + y * width + x] += across * down;
      }
    }
  }
  const smooth = blurred(tensor, about.steep / about.half);
  const across = new Float32Array(area);
  const down = new Float32Array(area);
  for (let i = 0; i < area; i++) {
    const steepest = Math.atan2(2 * smooth.data[area + i], smooth.data[i]) / 2;
    across[i] = -Math.sin(steepest);
    down[i] = Math.cos(steepest);
  }
  return { across, down, columns: width };
}

// A Gaussian blur, the border repeated outside.
function blurred(maps, deviation) {
  const radius = Math.ceil(3 * deviation);
  const kernel = [];
  for (let k = -radius; k <= radius; k++) kernel.push(Math.exp(-((k / deviation) ** 2) / 2));
  const total = kernel.reduce((a, b) => a + b);
  const weights = Float32Array.from(kernel, (k) => k / total);
  const { channels, height, width } = maps;
  const half = map(channels, height, width);
  const out = map(channels, height, width);
  for (let c = 0; c < channels; c++) {
    const start = c * height * width;
    for (let y = 0; y < height; y++) {
      const to = start + y * width;
      for (let k = -radius; k <= radius; k++) {
        const from = start + held(y + k, height) * width;
        const weight = weights[k + radius];
        for (let x = 0; x < width; x++) half.data[to + x] += weight * maps.data[from + x];
      }
      for (let x = 0; x < width; x++) {
        let sum = 0;
        if (x >= radius && x + radius < width) {
          for (let k = -radius; k <= radius; k++) sum += weights[k + radius] * half.data[to + x + k];
        } else {
          for (let k = -radius; k <= radius; k++) sum += weights[k + radius] * half.data[to + held(x + k, width)];
        }
        out.data[to + x] = sum;
      }
    }
  }
  return out;
}

// Ink printed on top of a picture. Changes the picture.
export function printed(picture, inked, amount) {
  const { height, width } = picture;
  const area = height * width;
  inked = cropped(inked, 0, 0, height, width);
  for (let c = 0; c < 3; c++) {
    for (let i = 0; i < area; i++) {
      picture.data[c * area + i] = (1 + picture.data[c * area + i]) * (1 - amount * inked.data[i]) - 1;
    }
  }
  return picture;
}

// Where a photo is plain: smoothed, with faint strokes; models/strokes.py.
export function grounded(photo, canvas, side, amount, top, left, { flat, block }) {
  const { height, width } = photo;
  const area = height * width;
  const means = blockMeans(photo, block);
  const rows = means.height;
  const columns = means.width;
  const few = rows * columns;
  const smooth = map(3, rows, columns);
  const step = new Float32Array(few);
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++) {
      const i = y * columns + x;
      for (let c = 0; c < 3; c++) {
        let sum = 0, count = 0;
        for (let v = Math.max(0, y - 1); v <= Math.min(rows - 1, y + 1); v++) {
          for (let u = Math.max(0, x - 1); u <= Math.min(columns - 1, x + 1); u++) {
            sum += means.data[c * few + v * columns + u];
            count++;
          }
        }
        smooth.data[c * few + i] = sum / count;
        const own = means.data[c * few + i];
        if (x) step[i] = Math.max(step[i], Math.abs(own - means.data[c * few + i - 1]));
        if (y) step[i] = Math.max(step[i], Math.abs(own - means.data[c * few + i - columns]));
      }
    }
  }
  const plain = map(1, rows, columns);
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++) {
      let largest = 0;
      for (let v = Math.max(0, y - 1); v <= Math.min(rows - 1, y + 2); v++) {
        for (let u = Math.max(0, x - 1); u <= Math.min(columns - 1, x + 2); u++) {
          largest = Math.max(largest, step[v * columns + u]);
        }
      }
      plain.data[y * columns + x] = Math.exp(-((largest / flat) ** 2));
    }
  }
  const where = enlarged(plain, block, height, width);
  const ground = enlarged(smooth, block, height, width);
  for (let y = 0; y < height; y++) {
    const row = modulo(top + y, side) * side;
    for (let x = 0; x < width; x++) {
      const stroke = amount * canvas[row + modulo(left + x, side)];
      const share = where.data[y * width + x];
      for (let c = 0; c < 3; c++) {
        const i = c * area + y * width + x;
        ground.data[i] = photo.data[i] + share * (ground.data[i] + stroke - photo.data[i]);
      }
    }
  }
  return ground;
}
