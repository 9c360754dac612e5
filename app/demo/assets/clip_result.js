const $ = (what) => element.querySelector(what);
const [frame, image, video, chip, bar, save, notes] = [".frame", "img", "video", ".chip", ".bar", ".save", ".notes"].map($);
const { pictures } = repaint;

function withoutClip() {
  video.pause();
  video.removeAttribute("src");
  video.hidden = true;
  image.hidden = false;
  save.hidden = true;
  save.removeAttribute("href");
  notes.replaceChildren();
}

repaint.clipResult = {
  empty() {
    withoutClip();
    image.removeAttribute("src");
    frame.hidden = true;
    chip.textContent = "";
    this.progress(null);
  },
  // The settings are others than those it was painted with.
  stale() {
    frame.classList.add("stale");
    chip.textContent = frame.hidden ? "" : "Not painted yet";
  },
  // Else who clicks as the new clip appears would get the one before.
  begin() {
    withoutClip();
    chip.textContent = "";
    this.progress(true);
  },
  // A clip that was painted before can still be had.
  async frame({ after, label }) {
    video.pause();
    video.hidden = true;
    image.hidden = false;
    save.textContent = "Download the clip painted before";
    frame.hidden = false;
    image.src = pictures.address(after);
    image.alt = `A frame of your clip painted in the style ${label}`;
    chip.textContent = "Preview of one frame";
    frame.classList.remove("stale");
    await image.decode().catch(() => {});
    frame.dataset.of = after;
  },
  clip({ clip, name, label, notes: lines }) {
    frame.hidden = false;
    frame.classList.remove("stale");
    chip.textContent = "";
    image.hidden = true;
    video.hidden = false;
    video.src = save.href = pictures.address(clip);
    video.setAttribute("aria-label", `Your clip painted in the style ${label}`);
    save.download = name;
    save.textContent = "Download the clip";
    save.hidden = false;
    notes.replaceChildren(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
    $(".spoken").textContent = `Done: your clip is painted in the style ${label}.`;
    frame.scrollIntoView({ block: "nearest", behavior: "smooth" });
  },
  progress(part) {
    bar.hidden = part === null;
    if (part !== null) frame.hidden = false;
    if (typeof part === "number") bar.value = part;
    else bar.removeAttribute("value");
  },
};
