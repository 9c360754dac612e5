const $ = (what) => element.querySelector(what);
const [frame, before, after, at, chip, bar] = [".frame", ".before", ".after", ".at", ".chip", ".bar"].map($);
const { pictures } = repaint;
let shown = null; // what is on the stage: see show()

function move(part) {
  at.value = part;
  at.setAttribute("aria-valuetext", `${100 - Math.round(part)} percent painting`);
  // The pictures may be narrower than the frame that they lie in.
  const box = frame.getBoundingClientRect();
  const ratio = after.naturalWidth / after.naturalHeight || 1;
  const width = Math.min(box.width, after.clientHeight * ratio || box.width);
  const left = (box.width - width) / 2;
  const places = { left, wide: width, from: left + (width * part) / 100 };
  for (const [name, place] of Object.entries(places)) frame.style.setProperty(`--${name}`, `${place}px`);
}

at.addEventListener("input", () => move(Number(at.value)));
// A range of that height is not dragged from everywhere in every browser.
frame.addEventListener("pointerdown", (event) => {
  if (event.target !== at) return;
  const box = () => at.getBoundingClientRect();
  const follow = (moved) => move(Math.min(100, Math.max(0, (100 * (moved.clientX - box().left)) / box().width)));
  const stop = () => {
    removeEventListener("pointermove", follow);
    removeEventListener("pointerup", stop);
    removeEventListener("pointercancel", stop);
  };
  addEventListener("pointermove", follow);
  addEventListener("pointerup", stop);
  addEventListener("pointercancel", stop);
});
new ResizeObserver(() => move(Number(at.value))).observe(frame);

repaint.stage = {
  get shown() { return shown; },
  element: frame,
  // before, after: addresses; kind: "example", "preview" or "painted"; label: the style's name;
  // png, jpg, name: the files to download, where they are there.
  async show(one) {
    shown = one;
    before.src = pictures.address(one.before);
    after.src = pictures.address(one.after);
    before.alt = one.kind === "example" ? "The photo of the example" : "Your photo";
    after.alt = `${one.kind === "example" ? "The example" : "Your photo"} painted in the style ${one.label}`;
    frame.dataset.kind = one.kind;
    frame.classList.remove("stale", "alone");
    after.style.opacity = "";
    chip.textContent = one.chip ?? "";
    repaint.result?.show(one);
    await Promise.all([before.decode().catch(() => {}), after.decode().catch(() => {})]);
    move(Number(at.value));
  },
  // A photo that nothing was painted of yet.
  photo(url) {
    shown = null;
    frame.classList.add("alone");
    frame.classList.remove("stale");
    before.src = url;
    before.alt = "Your photo";
    chip.textContent = "";
    repaint.result?.hide();
  },
  stale(text) {
    if (!shown || shown.kind === "example") return;
    frame.classList.add("stale");
    chip.textContent = text;
    repaint.result?.hide();
  },
  chip(text) { chip.textContent = text; },
  // A guess of less strength: the painting, as much of it as that, over the photo.
  fade(strength) {
    if (shown?.strength > 0) after.style.opacity = Math.min(1, strength / shown.strength);
  },
  fresh() {
    frame.classList.remove("stale");
    after.style.opacity = "";
    chip.textContent = shown?.chip ?? "";
    if (shown?.kind === "painted") repaint.result?.show(shown);
  },
  progress(part) {
    bar.hidden = part === null;
    if (typeof part === "number") bar.value = part;
    else bar.removeAttribute("value");
  },
  speak(text) { $(".spoken").textContent = text; },
};

if (!document.fullscreenEnabled) $(".full").hidden = true;
$(".full").addEventListener("click", () =>
  document.fullscreenElement ? document.exitFullscreen() : frame.requestFullscreen());
repaint.stage.show(props.value);
