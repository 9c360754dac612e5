// Two ways to keep a photo's colors in its painting: app/color.py. Pictures are maps of 3 channels.

const NOISE = (2 / 127.5) ** 2; // added to the colors' variance: two levels of 255

export function keptByLuminance(photo, painted, weights) {
  const area = painted.height * painted.width;
  const [r, g, b] = weights;
  const p = painted.data;
  const o = photo.data;
  for (let i = 0; i < area; i++) {
    const more = r * (p[i] - o[i]) + g * (p[area + i] - o[area + i]) + b * (p[2 * area + i] - o[2 * area + i]);
    for (let c = 0; c < 3; c++) p[c * area + i] = limited(o[c * area + i] + more);
  }
  return painted;
}

// Sums over pictures, from which their colors' mean and covariance follow.
export class Colors {
  constructor() {
    this.count = 0;
    this.sums = new Float64Array(3);
    this.products = new Float64Array(9);
  }

  add(picture) {
    const area = picture.height * picture.width;
    const { data } = picture;
    for (let i = 0; i < area; i++) {
      for (let j = 0; j < 3; j++) {
        const value = data[j * area + i];
        this.sums[j] += value;
        for (let k = j; k < 3; k++) this.products[3 * j + k] += value * data[k * area + i];
      }
    }
    this.count += area;
  }

  get mean() {
    return Array.from(this.sums, (sum) => sum / this.count);
  }

  get covariance() {
    const mean = this.mean;
    return rows((j, k) => {
      const [a, b] = j < k ? [j, k] : [k, j];
      return this.products[3 * a + b] / this.count - mean[j] * mean[k] + (j === k ? NOISE : 0);
    });
  }
}

// The affine map that moves a painting's colors least to have the photo's mean and covariance.
export function matching(photo, painted) {
  const covariance = painted.covariance;
  const root = power(covariance, 0.5);
  const inverse = power(covariance, -0.5);
  const between = power(product(product(root, photo.covariance), root), 0.5);
  const matrix = product(product(inverse, between), inverse);
  const mean = painted.mean;
  const shift = photo.mean.map((m, j) => m - matrix[j].reduce((sum, v, k) => sum + v * mean[k], 0));
  return { matrix, shift };
}

export function matched(painted, { matrix, shift }) {
  const area = painted.height * painted.width;
  const { data } = painted;
  for (let i = 0; i < area; i++) {
    const a = data[i];
    const b = data[area + i];
    const c = data[2 * area + i];
    for (let j = 0; j < 3; j++) {
      const [x, y, z] = matrix[j];
      data[j * area + i] = limited(x * a + y * b + z * c + shift[j]);
    }
  }
  return painted;
}

const limited = (value) => (value < -1 ? -1 : value > 1 ? 1 : value);
const rows = (at) => [0, 1, 2].map((j) => [0, 1, 2].map((k) => at(j, k)));
const product = (A, B) => rows((j, k) => A[j][0] * B[0][k] + A[j][1] * B[1][k] + A[j][2] * B[2][k]);

// A symmetric matrix to a power, by Jacobi's rotations.
function power(matrix, exponent) {
  const A = matrix.map((row) => [...row]);
  const V = rows((j, k) => (j === k ? 1 : 0));
  for (let sweep = 0; sweep < 12; sweep++) {
    for (const [p, q] of [[0, 1], [0, 2], [1, 2]]) {
      if (Math.abs(A[p][q]) < 1e-300) continue;
      const theta = (A[q][q] - A[p][p]) / (2 * A[p][q]);
      const t = Math.sign(theta || 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
      const c = 1 / Math.sqrt(t * t + 1);
      const s = t * c;
      for (let k = 0; k < 3; k++) [A[k][p], A[k][q]] = [c * A[k][p] - s * A[k][q], s * A[k][p] + c * A[k][q]];
      for (let k = 0; k < 3; k++) [A[p][k], A[q][k]] = [c * A[p][k] - s * A[q][k], s * A[p][k] + c * A[q][k]];
      for (let k = 0; k < 3; k++) [V[k][p], V[k][q]] = [c * V[k][p] - s * V[k][q], s * V[k][p] + c * V[k][q]];
    }
  }
  const values = [0, 1, 2].map((j) => Math.max(A[j][j], 1e-12) ** exponent);
  return rows((j, k) => V[j][0] * values[0] * V[k][0] + V[j][1] * values[1] * V[k][1] + V[j][2] * values[2] * V[k][2]);
}
