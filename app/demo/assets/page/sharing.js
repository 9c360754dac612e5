// What a visitor does with a painting: save, share, copy it, show it beside its photo, send a link.
repaint.sharing = (() => {
  const { address, blobOf, canvasOf } = repaint.pictures;

  async function picture(url) {
    const image = new Image();
    image.src = address(url);
    await image.decode();
    return image;
  }

  function save(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  async function share(url, name) {
    const blob = await (await fetch(address(url))).blob();
    const file = new File([blob], name, { type: blob.type });
    if (!navigator.canShare?.({ files: [file] })) return false;
    try {
      await navigator.share({ files: [file], title: "Repaint" });
    } catch (error) {
      if (error.name !== "AbortError") throw error; // the visitor thought better of it
    }
    return true;
  }

  async function copy(url) {
    // Browsers copy pictures as PNG alone; Safari wants the promise, not what comes of it.
    const png = (async () => {
      const image = await picture(url);
      const canvas = canvasOf(image.naturalWidth, image.naturalHeight);
      canvas.getContext("2d").drawImage(image, 0, 0);
      return blobOf(canvas, "image/png");
    })();
    await navigator.clipboard.write([new ClipboardItem({ "image/png": png })]);
  }

  // Photo and painting side by side, or one above the other where they are wide.
  async function both(before, after) {
    const pictures = [await picture(before), await picture(after)];
    const [width, height] = [pictures[1].naturalWidth, pictures[1].naturalHeight];
    const wide = width > 1.2 * height;
    const gap = Math.round(Math.max(width, height) / 100);
    const canvas = canvasOf(wide ? width : 2 * width + gap, wide ? 2 * height + gap : height);
    const view = canvas.getContext("2d");
    view.fillStyle = "white";
    view.fillRect(0, 0, canvas.width, canvas.height);
    pictures.forEach((one, index) =>
      view.drawImage(one, wide ? 0 : index * (width + gap), wide ? index * (height + gap) : 0, width, height));
    return blobOf(canvas, "image/jpeg", 0.92);
  }

  const CLIP_SECONDS = 4;
  const CLIP_SIDE = 1080;

  // The painting is drawn over the photo from the left to the right and back, as a clip.
  async function clip(before, after) {
    const pictures = [await picture(before), await picture(after)];
    const scale = Math.min(1, CLIP_SIDE / Math.max(pictures[1].naturalWidth, pictures[1].naturalHeight));
    const even = (length) => 2 * Math.round((length * scale) / 2);
    const canvas = canvasOf(even(pictures[1].naturalWidth), even(pictures[1].naturalHeight));
    const view = canvas.getContext("2d");
    const type = ["video/mp4;codecs=avc1.42E01E", "video/mp4", "video/webm;codecs=vp9", "video/webm"]
      .find((one) => MediaRecorder.isTypeSupported(one));
    const recorder = new MediaRecorder(canvas.captureStream(30), { mimeType: type, videoBitsPerSecond: 6e6 });
    const parts = [];
    recorder.ondataavailable = (event) => parts.push(event.data);
    const ended = new Promise((done) => { recorder.onstop = done; });
    const started = performance.now();
    const { width, height } = canvas;
    function frame() {
      const passed = (performance.now() - started) / (1000 * CLIP_SECONDS);
      const at = width * (0.5 - 0.5 * Math.cos(2 * Math.PI * Math.min(1, passed)));
      view.drawImage(pictures[0], 0, 0, width, height);
      view.save();
      view.beginPath();
      view.rect(0, 0, at, height);
      view.clip();
      view.drawImage(pictures[1], 0, 0, width, height);
      view.restore();
      view.fillStyle = "white";
      view.fillRect(at - 1, 0, 2, height);
      if (passed < 1) setTimeout(frame, 33); // a page in the background draws no frames
      else recorder.stop();
    }
    frame();
    recorder.start();
    await ended;
    const ending = type.startsWith("video/mp4") ? "mp4" : "webm";
    return { blob: new Blob(parts, { type: type.split(";")[0] }), ending };
  }

  return { save, share, copy, both, clip };
})();
