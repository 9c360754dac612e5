const $ = (what) => element.querySelector(what);
const [drop, given, bar, wrong] = [".drop", ".given", "progress", ".wrong"].map($);
const { pictures } = repaint;
const TRIES = 3; // of painting it, or a frame of it
const LIVE = 250; // milliseconds that the settings rest before another frame is painted

let file = null;
let path = null; // on the server
let holder = null; // the server that has it
let told = ""; // what the server says of the clip
let seconds = null; // that painting it will take
let wish = 0; // of the newest: what answers an older one is not shown
let painted = ""; // the settings that what is shown was painted with
let working = false; // the whole clip is being painted
let again = false; // it was sent once more already
let tries = 1;
let choices = 0; // how many files were chosen: what belongs to an older one has no effect
let later;
let aborting = new AbortController();
let uploading = null;

function complain(sentence) {
  wrong.textContent = sentence;
  wrong.hidden = !sentence;
}

const settings = () => JSON.stringify([repaint.director.values, document.querySelector("#clip-size input:checked")?.value]);

function show() {
  given.hidden = !file;
  $(".main span").textContent = file ? "Another clip" : "Choose a clip";
  $(".name").textContent = file?.name ?? "";
  measured();
}

function measured() {
  if (working) return;
  const wait = seconds > 1.5 ? ` · about ${seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`}` : "";
  repaint.desk?.about(file ? told && `${told}${wait}` : "Choose a clip, then tap a style.");
}

function remove() {
  aborting.abort();
  clearTimeout(later);
  ++wish;
  ++choices;
  [file, path, told, seconds, painted] = [null, null, "", null, ""];
  bar.hidden = true;
  repaint.clipResult.empty();
  props.value = null;
  trigger("input");
  complain("");
  show();
}

// Its length and size, where the browser can tell; the server says it of all others.
function look(chosen) {
  return new Promise((resolve) => {
    const video = document.createElement("video");
    const end = () => {
      const found = { seconds: video.duration, pixels: video.videoWidth * video.videoHeight };
      URL.revokeObjectURL(video.src);
      video.removeAttribute("src");
      resolve(found);
    };
    video.preload = "metadata";
    video.onloadedmetadata = video.onerror = end;
    setTimeout(end, 4000);
    video.src = URL.createObjectURL(chosen);
  });
}

// Why it is not taken, "" where it is.
async function refusal(chosen) {
  if (chosen.size > props.size) return `${chosen.name} is too large; a clip may have at most ${Math.round(props.size / 2 ** 20)} MB.`;
  if (!chosen.size) return `${chosen.name} is empty.`;
  const found = await look(chosen);
  if (Number.isFinite(found.seconds) && found.seconds > props.seconds + 1)
    return `${chosen.name} lasts ${Math.round(found.seconds)} s; a clip may last a minute. Cut it shorter, please.`;
  if (found.pixels > props.pixels) return `${chosen.name} has frames of ${Math.round(found.pixels / 1e6)} megapixels; at most 4K is painted here.`;
  return "";
}

async function give(chosen) {
  remove();
  const mine = choices;
  const sentence = await refusal(chosen);
  if (mine !== choices) return;
  if (sentence) complain(sentence);
  else {
    file = chosen;
    await place();
    if (mine === choices) changed(0);
  }
}

// Uploaded. Whatever was under way for another ends.
function place() {
  aborting.abort();
  const { signal } = (aborting = new AbortController());
  path = null;
  bar.hidden = false;
  bar.removeAttribute("value");
  show();
  uploading = (async () => {
    try {
      const sent = await pictures.sent(file, (part) => {
        bar.value = part;
        $(".size").textContent = part < 1 ? `Uploading: ${Math.round(100 * part)} %` : "";
      }, signal, props.size);
      if (signal.aborted) return;
      [path, holder] = [sent, repaint.connection.server];
      props.value = { path, name: file.name };
      trigger("input");
      await new Promise((done) => setTimeout(done));
    } catch (error) {
      if (signal.aborted) return;
      remove();
      complain(error.message);
    } finally {
      if (!signal.aborted) bar.hidden = true;
    }
  })();
  return uploading;
}

// Resolves once it is uploaded, to the server that is there now.
async function there() {
  await uploading;
  if (path && holder !== repaint.connection.server) await place();
}

// Something that its painting depends on: a frame of it is painted anew.
function changed(rest = LIVE) {
  measured();
  if (working || settings() === painted) return;
  clearTimeout(later);
  repaint.clipResult.stale();
  if (!file) return;
  const mine = ++wish;
  later = setTimeout(async () => {
    await there();
    if (mine !== wish || !path || !(await repaint.director.ready("preview")) || mine !== wish) return;
    repaint.clipResult.progress(true);
    painted = settings();
    repaint.channels.glimpse({ wish: mine });
  }, rest);
}

async function begin() {
  if (working) return;
  if (!file) {
    complain("Choose a clip first.");
    drop.scrollIntoView({ block: "center", behavior: "smooth" });
    return;
  }
  clearTimeout(later);
  const mine = ++wish;
  working = true;
  repaint.clipResult.begin();
  repaint.director.working(true);
  await there();
  if (mine !== wish) return;
  if (path && (await repaint.director.ready())) {
    painted = settings();
    repaint.channels.video({ wish: mine });
  } else ended();
}

function ended() {
  working = false;
  painted = ""; // but for what is painted to its end
  repaint.clipResult.progress(null);
  repaint.director.working(false);
  measured();
}

// The server has it no longer.
async function sendAgain() {
  again = true;
  ended();
  await Promise.all([place(), repaint.director.sendPictures()]);
  if (path) begin();
}

repaint.video = {
  begin() {
    tries = 1;
    begin();
  },
  changed,
  measured,
  glimpsed(answer) {
    if (answer.wish !== wish || !answer.kind) return;
    if (answer.told) told = answer.told;
    if (answer.kind === "seen" || answer.kind === "waiting") { measured(); return; }
    repaint.clipResult.progress(null);
    if (answer.kind === "preview") {
      tries = 1;
      ({ seconds } = answer);
      repaint.clipResult.frame(answer);
    } else if (answer.kind === "gone" && !again) {
      again = true;
      painted = "";
      Promise.all([place(), repaint.director.sendPictures()]).then(() => changed(0));
    } else if (answer.kind === "refused") {
      remove();
      complain(answer.text);
    } else if (answer.kind === "sorry") {
      painted = "";
      repaint.director.say(answer.text, true);
    }
    measured();
  },
  // It has ended without an answer: the line was full, or the connection cut.
  async failed() {
    const mine = wish;
    if (repaint.connection.cut && tries < TRIES) {
      ++tries;
      await repaint.director.reconnected();
      if (mine !== wish) return;
      if (working) {
        ended();
        begin();
      } else {
        painted = "";
        changed(0);
      }
      return;
    }
    if (working) {
      repaint.video.heard({ kind: "sorry", text: "Please try again." });
      return;
    }
    painted = "";
    repaint.clipResult.progress(null);
    repaint.director.say("Please try again.", true);
  },
  heard(answer) {
    if (!answer.kind || !working || (answer.wish !== undefined && answer.wish !== wish)) return;
    if (answer.kind === "waiting" || answer.kind === "painting") {
      repaint.clipResult.progress(answer.done ?? true);
      repaint.desk.about(answer.text);
    } else if (answer.kind === "gone" && !again) {
      sendAgain();
    } else {
      const all = painted;
      again = false;
      ended();
      if (answer.kind === "painted") {
        painted = all;
        repaint.clipResult.clip(answer);
        if (settings() !== painted) changed(0);
      }
      else if (answer.kind === "stopped") repaint.director.say("Stopped.");
      else if (answer.text) repaint.director.say(answer.text, true);
    }
  },
};

pictures.given(drop, give);
$(".remove").addEventListener("click", () => {
  if (working) repaint.director.stop();
  remove();
});
