// Pictures that a visitor chooses: made upright and small enough in the browser, then uploaded.
repaint.pictures = (() => {
  // Pixels. No less is uploaded, so that another size can be chosen without another upload.
  const LEAST_SIDE = 1024;
  const QUALITY = 0.92;
  const LARGEST_FILE = 50 * 2 ** 20;

  // Where the server's routes are, also behind a proxy that has them under a path.
  const root = () => new URL(".", document.baseURI).href;
  const address = (path) =>
    !path || /^(blob:|data:|\.\/|https?:)/.test(path) ? path : `${root()}gradio_api/file=${encodeURI(path)}`;

  const side = (size) => (size ? Math.max(size, LEAST_SIDE) : 0);

  async function decode(file) {
    try {
      return await createImageBitmap(file, { imageOrientation: "from-image" });
    } catch {
      return null; // HEIC say, which the server reads; or no picture at all, which it will say
    }
  }

  function canvasOf(width, height) {
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(width));
    canvas.height = Math.max(1, Math.round(height));
    return canvas;
  }

  const blobOf = (canvas, type, quality) =>
    new Promise((resolve, reject) =>
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("too large"))), type, quality));

  function hasAlpha(canvas) {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    for (let i = 3; i < pixels.length; i += 4) if (pixels[i] < 255) return true;
    return false;
  }

  // turn: quarter turns clockwise; crop: left, top, width, height as parts of the turned picture.
  function drawn(bitmap, most, turn = 0, crop = [0, 0, 1, 1]) {
    const across = turn % 2 ? bitmap.height : bitmap.width;
    const down = turn % 2 ? bitmap.width : bitmap.height;
    const [left, top, width, height] = [crop[0] * across, crop[1] * down, crop[2] * across, crop[3] * down];
    const scale = most ? Math.min(1, most / Math.max(width, height)) : 1;
    const canvas = canvasOf(width * scale, height * scale);
    const view = canvas.getContext("2d");
    view.imageSmoothingQuality = "high";
    view.scale(scale, scale);
    view.translate(-left, -top);
    view.translate(across / 2, down / 2);
    view.rotate((turn * Math.PI) / 2);
    view.drawImage(bitmap, -bitmap.width / 2, -bitmap.height / 2);
    return canvas;
  }

  // The file to upload: the one that was chosen where it is small enough, else a smaller one.
  // most: pixels of the longest side, 0 for all.
  async function prepare(file, most, turn = 0, crop = null) {
    const bitmap = await decode(file);
    if (!bitmap) return { file, width: 0, height: 0, side: 0, preview: null };
    const turned = turn % 2 ? [bitmap.height, bitmap.width] : [bitmap.width, bitmap.height];
    const [width, height] = crop ? [turned[0] * crop[2], turned[1] * crop[3]].map(Math.round) : turned;
    const whole = !turn && !crop;
    const small = !most || Math.max(width, height) <= most;
    const preview = await blobOf(drawn(bitmap, 1600, turn, crop ?? undefined), "image/jpeg", 0.85);
    if (whole && small) {
      bitmap.close();
      return { file, width, height, side: 0, preview };
    }
    const canvas = drawn(bitmap, most, turn, crop ?? undefined);
    bitmap.close();
    const clear = !/jpe?g/.test(file.type) && hasAlpha(canvas);
    const type = clear ? "image/png" : "image/jpeg";
    const blob = await blobOf(canvas, type, QUALITY);
    const name = file.name.replace(/\.[^.]*$/, "") + (type === "image/png" ? ".png" : ".jpg");
    return { file: new File([blob], name, { type }), width, height, side: small ? 0 : most, preview };
  }

  // Resolves to the path that the server gave it. told: called with the part that is there, 0 to 1.
  // most: bytes.
  function upload(file, told = () => {}, signal = null, most = LARGEST_FILE) {
    return new Promise((resolve, reject) => {
      if (file.size > most) {
        reject(new Error(`${file.name} is too large; a file may have at most ${Math.round(most / 2 ** 20)} MB.`));
        return;
      }
      const form = new FormData();
      form.append("files", file, file.name);
      const asked = new XMLHttpRequest();
      asked.open("POST", `${root()}gradio_api/upload`);
      asked.upload.onprogress = (event) => event.lengthComputable && told(event.loaded / event.total);
      asked.onload = () => {
        if (asked.status === 200) resolve(JSON.parse(asked.responseText)[0]);
        else if (repaint.connection.away(asked.status, asked.getResponseHeader("content-type"))) asked.onerror();
        else reject(new Error(asked.responseText || "The upload was refused."));
      };
      asked.onerror = () => reject(new TypeError("offline"));
      asked.onabort = () => reject(new DOMException("", "AbortError"));
      signal?.addEventListener("abort", () => asked.abort());
      asked.send(form);
    });
  }

  // As above, but waits for a connection that is away.
  async function sent(file, told, signal, most) {
    for (;;) {
      try {
        return await upload(file, told, signal, most);
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        await new Promise((done) => setTimeout(done, 1500));
        await repaint.director.reconnected();
        if (signal?.aborted) throw new DOMException("", "AbortError");
      }
    }
  }

  // A file that is chosen in a place, or dropped on it.
  function given(place, give) {
    const take = ([file]) => file && give(file);
    const input = place.querySelector(".file");
    input.addEventListener("change", () => {
      take(input.files);
      input.value = ""; // the same one may be chosen again
    });
    place.addEventListener("dragover", (event) => { event.preventDefault(); place.classList.add("over"); });
    place.addEventListener("dragleave", () => place.classList.remove("over"));
    place.addEventListener("drop", (event) => {
      event.preventDefault();
      event.stopPropagation();
      place.classList.remove("over");
      take(event.dataTransfer.files);
    });
  }

  return { given, address, root, side, decode, drawn, blobOf, canvasOf, prepare, sent };
})();
