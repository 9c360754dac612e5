const $ = (what) => element.querySelector(what);
const [bar, state, zip, left] = ["progress", ".state", ".zip", ".left"].map($);
repaint.batch = {
  async begin() {
    zip.hidden = true; // the last batch's is not this one's
    left.replaceChildren();
    if (!document.querySelector("#photos .file-preview, #photos table")) {
      repaint.director.say("Choose some photos first.", true);
      return;
    }
    state.textContent = "";
    bar.hidden = false;
    bar.removeAttribute("value");
    repaint.director.working(true);
    if (!(await repaint.director.ready())) this.heard({ kind: "sorry", text: "Choose a painting first." });
    else repaint.channels.batch({ asked: Date.now() });
  },
  heard(answer) {
    if (!answer.kind) return;
    if (answer.text) state.textContent = answer.text;
    if (answer.kind === "painting") {
      bar.value = answer.done;
      return;
    }
    bar.hidden = true;
    repaint.director.working(false);
    if (answer.kind === "sorry") {
      repaint.director.say(answer.text, true);
      return;
    }
    left.replaceChildren(...answer.left.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
    zip.hidden = !answer.zip;
    if (answer.zip) {
      zip.href = repaint.pictures.address(answer.zip);
      zip.download = answer.name;
    }
  },
};
