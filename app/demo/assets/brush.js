const LARGEST = 768; // pixels of the mask's longest side
const canvas = element.querySelector("canvas");
const hint = element.querySelector(".hint");
const size = element.querySelector(".size");
const erase = element.querySelector(".erase");
const view = canvas.getContext("2d");
const mask = document.createElement("canvas");
const drawn = mask.getContext("2d");
const tinted = document.createElement("canvas");
const photo = new Image();
let at = null; // where the brush is, in the canvas's pixels
let last = null; // where the stroke that is being drawn was before
let undrawn = true;
const drawing = element.querySelector(".draw"); // for fingers: else they scroll the page
const undo = element.querySelector(".undo");
const past = []; // the mask before each stroke
const MOST_PAST = 20;

function keep() {
  past.push(drawn.getImageData(0, 0, mask.width, mask.height));
  if (past.length > MOST_PAST) past.shift();
  undo.disabled = false;
}

drawing.addEventListener("click", () => {
  const on = drawing.ariaPressed !== "true";
  drawing.ariaPressed = String(on);
  canvas.classList.toggle("drawing", on);
});
undo.addEventListener("click", () => {
  const before = past.pop();
  if (before) drawn.putImageData(before, 0, 0);
  undo.disabled = !past.length;
  finish();
  show();
});

const radius = () => (Number(size.value) / 200) * Math.max(canvas.width, canvas.height);

function say() {
  hint.textContent = !photo.getAttribute("src")
    ? "Choose a photo first."
    : undrawn
      ? "Draw over the part that should be painted. With nothing drawn, all of it is."
      : "Only the colored part will be painted.";
}

function show() {
  view.drawImage(photo, 0, 0, canvas.width, canvas.height);
  const tint = tinted.getContext("2d");
  tint.globalCompositeOperation = "copy";
  tint.drawImage(mask, 0, 0);
  tint.globalCompositeOperation = "source-in";
  tint.fillStyle = getComputedStyle(element).getPropertyValue("--primary-500") || "teal";
  tint.fillRect(0, 0, tinted.width, tinted.height);
  view.globalAlpha = 0.6;
  view.drawImage(tinted, 0, 0);
  view.globalAlpha = 1;
  if (!at) return;
  for (const [color, width] of [["black", 3], ["white", 1.5]]) {
    view.beginPath();
    view.arc(at.x, at.y, radius(), 0, 2 * Math.PI);
    view.strokeStyle = color;
    view.lineWidth = width;
    view.stroke();
  }
}

function stroke(from, to) {
  drawn.globalCompositeOperation = erase.ariaPressed === "true" ? "destination-out" : "source-over";
  drawn.strokeStyle = "white";
  drawn.lineCap = "round";
  drawn.lineWidth = 2 * radius();
  drawn.beginPath();
  drawn.moveTo(from.x, from.y);
  drawn.lineTo(to.x + 0.01, to.y); // not every browser draws a line of no length as a dot
  drawn.stroke();
}

function finish() {
  last = null;
  const pixels = drawn.getImageData(0, 0, mask.width, mask.height).data;
  undrawn = true;
  // Erasing along a stroke leaves a trace of its soft edge.
  for (let i = 3; i < pixels.length && undrawn; i += 4) undrawn = pixels[i] < 128;
  props.value = undrawn ? "" : mask.toDataURL("image/png");
  say();
}

function place(event) {
  const box = canvas.getBoundingClientRect();
  return {
    x: ((event.clientX - box.left) * canvas.width) / box.width,
    y: ((event.clientY - box.top) * canvas.height) / box.height,
  };
}

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0 || (event.pointerType === "touch" && drawing.ariaPressed !== "true")) return;
  keep();
  canvas.setPointerCapture(event.pointerId);
  last = at = place(event);
  stroke(last, at);
  show();
});
canvas.addEventListener("pointermove", (event) => {
  at = place(event);
  if (last) {
    stroke(last, at);
    last = at;
  }
  show();
});
canvas.addEventListener("pointerup", () => last && finish());
canvas.addEventListener("pointercancel", () => last && finish());
canvas.addEventListener("pointerleave", () => {
  if (!last) at = null;
  show();
});

canvas.addEventListener("keydown", (event) => {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const step = steps[event.key];
  at ??= { x: canvas.width / 2, y: canvas.height / 2 };
  if (step) {
    const length = radius() / 2;
    at = {
      x: Math.min(canvas.width, Math.max(0, at.x + step[0] * length)),
      y: Math.min(canvas.height, Math.max(0, at.y + step[1] * length)),
    };
  } else if (event.key === " ") {
    keep();
    stroke(at, at);
    finish();
  } else if (event.key === "e") {
    erase.click();
  } else {
    return;
  }
  event.preventDefault();
  show();
});
canvas.addEventListener("blur", () => {
  at = null;
  show();
});

erase.addEventListener("click", () => {
  erase.ariaPressed = String(erase.ariaPressed !== "true");
});
size.addEventListener("input", show);
element.querySelector(".clear").addEventListener("click", () => {
  keep();
  drawn.clearRect(0, 0, mask.width, mask.height);
  finish();
  show();
});

photo.addEventListener("load", () => {
  const scale = Math.min(1, LARGEST / Math.max(photo.naturalWidth, photo.naturalHeight));
  for (const one of [canvas, mask, tinted]) {
    one.width = Math.max(1, Math.round(photo.naturalWidth * scale));
    one.height = Math.max(1, Math.round(photo.naturalHeight * scale));
  }
  canvas.classList.add("ready");
  past.length = 0;
  finish();
  show();
});

repaint.brush = {
  // The photo that the mask lies on; another one clears it.
  photo(url) {
    past.length = 0;
    undo.disabled = true;
    if (!url) {
      photo.removeAttribute("src");
      canvas.classList.remove("ready");
      if (props.value) props.value = "";
      say();
    } else if (photo.getAttribute("src") !== url) {
      photo.src = url;
    }
  },
};
say();
repaint.brush.photo(repaint.photos?.photo?.url ?? "");
