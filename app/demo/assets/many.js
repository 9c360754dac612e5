const $ = (what) => element.querySelector(what);
const [bar, state, zip, left] = ["progress", ".state", ".zip", ".left"].map($);
const TRIES = 3; // of one batch
const RESTARTED = "The server was restarted: choose the photos again, please.";
let lost = false; // the photos, with the server that they were sent to
let asked = 0; // batches, by number, and whatever ends one
let sent = 0; // the number of the last that was sent: what answers an older one is not shown
let tries = 0; // of this one
const chosen = () => document.querySelector("#photos .file-preview, #photos table");

// Gradio's own component: a phone is to open its photos, and a button to have a name.
function named() {
  const { accept } = document.querySelector("#photo input[type=file]");
  for (const input of document.querySelectorAll("#photos input[type=file]")) input.accept = accept;
  for (const button of document.querySelectorAll("#photos [title='common.upload']")) button.title = button.ariaLabel = "Choose others";
}

function send() {
  sent = ++asked;
  repaint.channels.batch({ wish: sent });
}

repaint.batch = {
  // Its tab is shown.
  open() {
    named();
    new MutationObserver(named).observe(document.querySelector("#photos"), { childList: true, subtree: true });
    this.open = named;
  },
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
    else send();
  },
  // It has ended without an answer: the line was full, or the connection cut.
  async failed() {
    if (bar.hidden) return; // nobody waits for it
    const mine = ++asked; // one that was stopped may fail beside its successor
    const { cut } = repaint.connection;
    if (cut && tries < TRIES) {
      ++tries;
      await repaint.director.reconnected();
      if (mine !== asked) return;
      if (lost) this.heard({ kind: "sorry", text: RESTARTED });
      else send();
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
    if (mine === asked) send();
  },
  heard(answer) {
    if (!answer.kind || (answer.wish !== undefined && answer.wish !== sent)) return;
    if (answer.kind === "painting" && bar.hidden) return; // it was stopped, and is not told so yet
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
    $(".many").scrollIntoView({ block: "nearest", behavior: "smooth" });
  },
};
