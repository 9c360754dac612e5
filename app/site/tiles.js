// Where the tiles of a large picture lie, and the samples that give it its statistics: app/tiles.py.
// A box is {top, left, bottom, right}, its ends excluded; pixels.

export function plan(height, width, side, margin, stride) {
  margin = roundUp(margin, stride);
  const tiles = [];
  for (const [top, bottom] of intervals(height, side, stride)) {
    for (const [left, right] of intervals(width, side, stride)) {
      tiles.push({
        core: { top, left, bottom, right },
        crop: {
          top: Math.max(0, top - margin),
          left: Math.max(0, left - margin),
          bottom: Math.min(height, bottom + margin),
          right: Math.min(width, right + margin),
        },
      });
    }
  }
  return tiles;
}

// Boxes of one size, spread evenly, of so many pixels in all; the picture where it has no more.
export function samples(height, width, pixels, side, stride) {
  if (height * width <= pixels) return [{ top: 0, left: 0, bottom: height, right: width }];
  const high = Math.min(side, height);
  const wide = Math.min(side, width);
  const count = Math.max(1, Math.floor(pixels / (high * wide)));
  let columns = Math.round(Math.sqrt((count * high * width) / (height * wide)));
  columns = Math.min(Math.max(1, columns), count, Math.floor(width / wide));
  const rows = Math.min(Math.floor(count / columns), Math.floor(height / high));
  columns = Math.min(Math.floor(count / rows), Math.floor(width / wide));
  const boxes = [];
  for (const top of spread(height, high, rows, stride)) {
    for (const left of spread(width, wide, columns, stride)) {
      boxes.push({ top, left, bottom: top + high, right: left + wide });
    }
  }
  return boxes;
}

function intervals(length, side, stride) {
  const count = Math.ceil(length / roundUp(side, stride));
  const step = roundUp(Math.ceil(length / count), stride);
  const found = [];
  for (let start = 0; start < length; start += step) found.push([start, Math.min(start + step, length)]);
  return found;
}

function spread(end, side, count, stride) {
  const places = [];
  for (let i = 0; i < count; i++) {
    const middle = ((i + 0.5) * end) / count - side / 2;
    const place = Math.floor(middle / stride) * stride;
    places.push(Math.min(Math.max(place, 0), end - side));
  }
  return places;
}

const roundUp = (length, stride) => Math.ceil(length / stride) * stride;
