// The network's graphs in onnxruntime-web, their weights, the canvases and the styles.

const KINDS = {
  i8: (file, at, size) => new Int8Array(file, at, size),
  f16: (file, at, size) => new Uint16Array(file, at, size),
};

// Half precision as float32; not every browser has arrays of it.
function half(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const size = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : (fraction / 1024) * 2 ** -14;
  return bits & 0x8000 ? -size : size;
}

// A file's tensors, float32, by name: app/export/packing.py.
export function unpacked(file, table) {
  const tensors = {};
  for (const { name, shape, kind, offset, scales } of table) {
    const size = shape.reduce((a, b) => a * b, 1);
    const values = new Float32Array(size);
    tensors[name] = values;
    if (kind === "s16") {
      unfolded(file, offset, shape.at(-1), values);
      continue;
    }
    const given = KINDS[kind](file, offset, size);
    if (kind === "i8") {
      const each = new Float32Array(file, scales, shape[0]);
      const columns = size / shape[0];
      for (let i = 0; i < size; i++) values[i] = given[i] * each[(i / columns) | 0];
    } else {
      for (let i = 0; i < size; i++) values[i] = half(given[i]);
    }
  }
  return tensors;
}

// Symmetric n x n matrices, of whose rows a file has what is not left of the diagonal.
function unfolded(file, offset, n, values) {
  const given = new Uint16Array(file, offset, (values.length / n / n) * ((n * (n + 1)) / 2));
  let from = 0;
  for (let start = 0; start < values.length; start += n * n) {
    for (let row = 0; row < n; row++) {
      for (let column = row; column < n; column++) {
        const value = half(given[from++]);
        values[start + row * n + column] = value;
        values[start + column * n + row] = value;
      }
    }
  }
}

export class Model {
  // ort: the runtime; base: where model.json is.
  static async load(ort, base, provider, tell = () => {}) {
    const read = async (name, how) => {
      const answer = await fetch(new URL(name, base));
      if (!answer.ok) throw new Error(`${name} can't be loaded (${answer.status})`);
      return answer[how]();
    };
    const about = await read("model.json", "json");
    const model = new Model();
    Object.assign(model, { ort, about, read, provider, codes: new Map() });
    const names = ["encoder", "generator", "coder"];
    const [weights, canvas, ...graphs] = await Promise.all([
      read(about.weights.file, "arrayBuffer"),
      read(about.canvas.file, "arrayBuffer"),
      ...names.map((name) => read(`${name}.onnx`, "arrayBuffer")),
    ]);
    tell(0.5);
    model.canvas = unpacked(canvas, about.canvas.tensors);
    const tensors = unpacked(weights, about.weights.tensors);
    const all = new Float32Array(about.weights.tensors.reduce((sum, t) => sum + tensors[t.name].length, 0));
    let start = 0;
    for (const { name } of about.weights.tensors) {
      all.set(tensors[name], start);
      start += tensors[name].length;
    }
    model.files = Object.fromEntries(names.map((name, i) => [name, graphs[i]]));
    model.data = new Uint8Array(all.buffer);
    await model.open(provider);
    return model;
  }

  async open(provider) {
    this.provider = provider;
    this.sessions = {};
    for (const name of Object.keys(this.files)) {
      // A painting's code is a matter of small matrices, for which a GPU is slow.
      const where = provider === "webgpu" && name !== "coder" ? ["webgpu", "wasm"] : ["wasm"];
      this.sessions[name] = await this.ort.InferenceSession.create(new Uint8Array(this.files[name]), {
        executionProviders: where,
        externalData: [{ path: this.about.weights.path, data: this.data }],
        logSeverityLevel: 3,
      });
    }
  }

  // A built-in style's code and ground; number from 1.
  async style(name, number = 1) {
    const key = `${name}:${number}`;
    if (!this.codes.has(key)) {
      const { file, table, ground } = this.about.styles.find((s) => s.name === name).codes[number - 1];
      const tensors = unpacked(await this.read(file, "arrayBuffer"), table);
      this.codes.set(key, { parts: table.map(({ name: part }) => tensors[part]), ground });
    }
    return this.codes.get(key);
  }

  // Content features of pictures (batch, 3, height, width), as an onnxruntime tensor.
  async encode(data, batch, height, width) {
    const photo = new this.ort.Tensor("float32", data, [batch, 3, height, width]);
    const { content } = await this.sessions.encoder.run({ photo });
    photo.dispose?.();
    return content;
  }

  // Pictures of content, colored; what each hop has read comes with them.
  async generate(content, code, strength, held = null) {
    const { ort } = this;
    const feeds = {
      content,
      strength: new ort.Tensor("float32", [strength], [1]),
      held: new ort.Tensor("float32", [held ? 1 : 0], [1]),
    };
    const shapes = this.shapes();
    shapes.forEach((shape, i) => {
      const size = shape.reduce((a, b) => a * b, 1);
      feeds[`code${i}`] = new ort.Tensor("float32", code ? code[i] : new Float32Array(size), shape);
      feeds[`given${i}`] = new ort.Tensor("float32", held ? held[i] : new Float32Array(size), shape);
    });
    const result = await this.sessions.generator.run(feeds);
    const read = [];
    for (let i = 0; i < shapes.length; i++) read.push(Float32Array.from(result[`read${i}`].data));
    const picture = await result.picture.getData();
    for (const each of Object.values(result)) each.dispose?.();
    return { picture, read };
  }

  // The code of a painting, (3, height, width) with sides that are multiples of the stride.
  async codeOf(data, height, width) {
    const content = await this.encode(data, 1, height, width);
    const { read } = await this.generate(content, null, 0);
    content.dispose?.();
    const feeds = {};
    this.shapes().forEach((shape, i) => {
      feeds[`read${i}`] = new this.ort.Tensor("float32", read[i], shape);
    });
    const result = await this.sessions.coder.run(feeds);
    return this.shapes().map((_, i) => Float32Array.from(result[`code${i}`].data));
  }

  // Those of a code's parts: a mean and a root for each hop.
  shapes() {
    const { channels, n } = this.about.network;
    return channels.flatMap((count) => [
      [1, count / n, n, 1],
      [1, count / n, n, n],
    ]);
  }
}
