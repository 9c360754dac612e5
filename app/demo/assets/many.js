const $ = (what) => element.querySelector(what);
const [bar, state, zip, left] = ["progress", ".state", ".zip", ".left"].map($);
const TRIES = 3; // of one batch
const RESTARTED = "The server was restarted: choose the photos again, please.";
let lost = false; // the photos, with the server that they were sent to
let asked = 0; // batches, by number
let tries = 0; // of this one
const chosen = () => document.querySelector("#photos .file-preview, #photos table");

repaint.batch = {
  async begin() {
    zip.hidden = true; // the last batch's is not this one's
    left.replaceChildren();
    if (!chosen()) {
      repaint.director.say("Choose some photos first.", true);
      return;
    }
    repaint.desk.unsay(RESTARTED);
    state.textContent = "";
    bar.hidden = false;
    bar.removeAttribute("value");
    repaint.director.working(true);
    ++asked;
    tries = 1;
    lost = false;
    if (!(await repaint.director.ready())) this.heard({ kind: "sorry", text: "Choose a painting first." });
    else repaint.channels.batch({ asked: Date.now() });
  },
  // It has ended without an answer: the line was full, or the connection cut.
  async failed() {
    const mine = asked;
    const { cut } = repaint.connection;
    if (cut && tries < TRIES) {
      ++tries;
      await repaint.director.reconnected();
      if (mine !== asked) return;
      if (lost) this.heard({ kind: "sorry", text: RESTARTED });
      else repaint.channels.batch({ asked: Date.now() });
    } else this.heard({ kind: "sorry", text: "Please try again." });
  },
  // By another server, which has no photos: Gradio's own component, which sends them, keeps none.
  replaced() {
    if (!chosen()) return;
    lost = true;
    repaint.channels.unchosen();
    if (bar.hidden) repaint.director.say(RESTARTED, true);
  },
  // The server has the painting no longer, or the photos.
  async sendAgain() {
    const mine = asked;
    tries = TRIES;
    await repaint.director.sendPictures();
    if (mine === asked) repaint.channels.batch({ asked: Date.now() });
  },
  heard(answer) {
    if (!answer.kind) return;
    if (answer.kind === "gone" && tries < TRIES) {
      this.sendAgain();
      return;
    }
    if (answer.text) state.textContent = answer.text;
    if (answer.kind === "painting") {
      bar.value = answer.done;
      return;
    }
    ++asked;
    bar.hidden = true;
    repaint.director.working(false);
    if (answer.kind === "stopped") {
      repaint.director.say("Stopped.");
      return;
    }
    if (!answer.left) { // "sorry", or "gone" once more
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
