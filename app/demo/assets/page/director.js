// What leads to what on the page: a choice to a preview, a rest to the full size, a lost connection
// to another try. The components register themselves; their looks are their own business.
repaint.director = (() => {
  const LIVE = 120; // milliseconds that a slider rests before its preview is asked for
  // Settings of what is done after the network: the server does it anew from what it has kept, in a
  // fraction of the time, so that their previews need no rest.
  const FINISH = ["tint", "tone", "outlines", "faces"];
  const QUIET = 1200; // and the visitor, before the full size follows a preview
  const PATIENT = 60; // seconds: a full size that takes longer is painted on Paint it alone
  const HISTORY = 12;
  const TRIES = 3; // of one wish: it may be what ends the server
  const LOST = "The connection to the server is lost. This goes on by itself as soon as it is back.";
  const TOO_OFTEN = "The connection to the server was lost again and again; please try again later, or with a smaller size.";
  const SETTINGS = "repaint-settings";
  const PENDING = "repaint-pending";
  const OWN = "/painting";
  const LABELS = { one: "Paint it", many: "Paint them all", video: "Paint the clip" };

  let mode = "one";
  let names = []; // of the settings, as values are in order
  let values = []; // what is chosen now
  let defaults = [];
  let applying = null; // what is being applied, so that nothing is painted for its sake
  let wish = 0; // the number of the newest wish; what answers an older one is not shown
  let wished = ""; // the settings that it was made with
  let running = null; // of the wish under way: its kind, whether it was asked for by hand, and how often
  let later; // what happens after a rest
  let touched = 0;
  let history = [];
  let everyAgain = false; // all styles were asked for once more already
  let seconds = {}; // that full sizes take, by the size chosen

  const setting = (name) => values[names.indexOf(name)];
  const photo = () => repaint.photos?.photo;
  const size = () => Number(setting("size") ?? 1024);
  const page = () => document.body; // which is not there yet when this is read

  function say(text, sorry = false) { repaint.desk?.say(text, sorry); }

  function rest() {
    running = null;
    localStorage.removeItem(PENDING);
    page().classList.remove("busy");
    page().dataset.state = "idle";
    repaint.desk.busy(false);
    repaint.stage.progress(null);
    if (painted()) repaint.stage.fresh();
    measured();
  }

  function work(kind) {
    page().classList.add("busy");
    page().dataset.state = "busy";
    repaint.desk.busy(true);
    if (kind !== "preview") repaint.stage.progress(true);
  }

  // What tells the pictures that are chosen from others.
  const PICTURES = ["photo", "painting", "second_painting"];
  const stamps = () => PICTURES.map((name) => repaint.photos[name]?.stamp ?? 0);

  // What the visitor has chosen, in words, for the settings' names.
  function styleName() {
    return document.querySelector("#styles input:checked")?.dataset.title ?? "";
  }

  const missing = (name, chosenName) => setting(chosenName) === OWN && !repaint.photos[name]?.there;

  // Whether all that it takes is chosen, and on the server; says what is missing.
  async function ready(kind) {
    for (const [name, chosenName] of [["painting", "style"], ["second_painting", "second"]]) {
      if (missing(name, chosenName)) {
        if (kind !== "preview") {
          repaint.photos[name].complain("Choose a painting first.");
          document.querySelector(`#${name.replace("_", "-")}`)?.scrollIntoView({ block: "center", behavior: "smooth" });
        }
        return false;
      }
      if (setting(chosenName) === OWN && !(await repaint.photos[name].ready(1024))) return false;
    }
    if (mode !== "one") return true;
    if (!photo().there) {
      if (kind === "preview") return true; // the example's
      photo().complain("Choose a photo first.");
      document.querySelector("#photo")?.scrollIntoView({ block: "center", behavior: "smooth" });
      return false;
    }
    return photo().ready(kind === "preview" ? 512 : size());
  }

  async function want(kind, byHand = false, tries = 1) {
    clearTimeout(later);
    const mine = ++wish;
    wished = JSON.stringify(values);
    page().dataset.wish = mine;
    const example = kind === "preview" && !photo().there;
    if (!example && repaint.stage.shown?.values !== JSON.stringify(values)) repaint.stage.stale("Not painted yet");
    // Else who clicks as the new picture appears would get the one before.
    if (byHand) repaint.result.hide();
    running = { kind, byHand, tries };
    if (kind === "paint") {
      localStorage.setItem(PENDING, kind);
      const box = repaint.stage.element.getBoundingClientRect();
      if (byHand && (box.top < 0 || box.bottom > innerHeight - 80))
        repaint.stage.element.scrollIntoView({ block: "start", behavior: "smooth" });
    }
    work(kind);
    const is = await ready(kind);
    if (mine !== wish) return;
    if (!is) { rest(); return; }
    repaint.channels[kind]({ wish: mine, has_photo: Boolean(photo().there && photo().url) });
  }

  const painted = () => repaint.stage.shown?.kind === "painted" && repaint.stage.shown.values === JSON.stringify(values);

  // The full size follows when nobody touches anything.
  function follow() {
    clearTimeout(later);
    const mine = wish;
    const look = () => {
      if (mine !== wish || mode !== "one" || !photo().there) return;
      const quiet = Date.now() - touched;
      if (quiet < QUIET) later = setTimeout(look, QUIET - quiet + 20);
      else if (!document.hidden) want("paint");
    };
    later = setTimeout(look, QUIET);
  }

  async function remember(one) {
    const [before, after] = await Promise.all(
      [one.before, one.after].map(async (url) => (await fetch(repaint.pictures.address(url))).blob()));
    const { id, label, name, facts, png, jpg, of } = one;
    history = [{ id, before, after, name: label, file: name, facts, png, jpg, of, values: JSON.parse(one.values) }, ...history.filter((old) => old.id !== id)].slice(0, HISTORY);
    await repaint.store.set("history", history);
    repaint.result.history(history, back);
  }

  function back(one) {
    ++wish;
    clearTimeout(later);
    rest();
    if (one.values) apply(one.values);
    present(one);
  }

  function present(one) {
    repaint.stage.show({
      id: one.id, kind: "painted", label: one.name, name: one.file, facts: one.facts,
      before: URL.createObjectURL(one.before), after: URL.createObjectURL(one.after),
      png: one.png, jpg: one.jpg, values: JSON.stringify(one.values), strength: one.values?.[names.indexOf("strength")],
    });
    // After an hour the server has the files no longer: what is kept here can still be had.
    if (one.png) fetch(repaint.pictures.address(one.png), { method: "HEAD" }).then((answer) => {
      if (answer.ok || repaint.stage.shown?.id !== one.id) return;
      Object.assign(repaint.stage.shown, { png: null, jpg: URL.createObjectURL(one.after) });
      repaint.result.files(repaint.stage.shown);
    }).catch(() => {});
  }

  async function show(kind, answer) {
    const own = photo().there;
    const label = answer.label || styleName();
    const chip = !own ? `An example, painted in the style ${label}` : answer.kind === "preview" ? "Preview" : "";
    seconds[`${size()}`] = answer.full_seconds;
    const one = {
      id: Date.now(), kind: own ? answer.kind : "example", label, name: answer.name, chip, facts: answer.facts,
      before: answer.before ?? photo().url, after: answer.after, values: wished, strength: setting("strength"), of: stamps(),
    };
    page().dataset.shown = answer.wish;
    const drawn = repaint.stage.show(one);
    rest();
    await drawn;
    repaint.stage.speak(own ? (answer.kind === "preview" ? `Preview in the style ${label}.` : `Done: your photo is painted in the style ${label}.`) : "");
    if (answer.wish !== wish || !own) return;
    if (answer.kind === "painted") repaint.channels.files({ wish: answer.wish });
    else if (answer.full_seconds <= PATIENT) follow();
  }

  // The server has the pictures no longer.
  async function sendPictures() {
    const pictures = Object.values(repaint.photos).filter((one) => one.there);
    return (await Promise.all(pictures.map((one) => one.again()))).every(Boolean);
  }

  async function sendAgain({ kind, tries }) {
    const mine = wish;
    const there = await sendPictures();
    if (mine === wish && there) want(kind, true, tries + 1);
    else if (mine === wish) rest();
  }

  // Resolves once there is a connection.
  async function reconnected() {
    say(LOST, true);
    await repaint.connection.back();
    repaint.desk.unsay(LOST);
  }

  const hearing = {
    preview: (answer) => hearing.paint(answer, "preview"),
    paint(answer, kind = "paint") {
      if (answer.wish !== wish || !answer.kind) return;
      if (answer.kind === "waiting" || answer.kind === "painting") {
        repaint.stage.progress(answer.kind === "painting" ? answer.done : true);
        repaint.desk.about(answer.text);
      } else if (answer.kind === "painted" || answer.kind === "preview") {
        show(kind, answer);
      } else if (answer.kind === "gone" && running?.tries < TRIES) {
        sendAgain({ ...running, kind });
      } else {
        rest();
        if (answer.text) say(answer.text, answer.kind === "sorry");
      }
    },
    files(answer) {
      const one = repaint.stage.shown;
      if (!answer.png || !one || String(answer.wish) !== page().dataset.shown) return;
      Object.assign(one, { png: answer.png, jpg: answer.jpg });
      repaint.result.files(one);
      remember(one);
      if (document.querySelector("#result .facts[open]")) repaint.director.about();
    },
    looked: (answer) => answer.path && photo().looked(answer),
    about(answer) {
      const one = repaint.stage.shown;
      if (one && answer.facts && String(answer.wish) === String(one.id)) repaint.result.facts({ ...one.facts, ...answer.facts });
    },
    every(answer) {
      for (const [style, url] of Object.entries(answer.pictures ?? {}))
        for (const input of document.querySelectorAll("#styles input"))
          if (input.value === style) {
            const picture = input.nextElementSibling;
            picture.dataset.usual ??= picture.src;
            picture.src = repaint.pictures.address(url);
          }
      if (answer.kind === "gone" && !everyAgain) {
        everyAgain = true;
        sendPictures().then(every);
      } else if (answer.kind && answer.kind !== "painting") {
        everyAgain = false;
        page().classList.remove("everything");
        rest();
        if (answer.text) say(answer.text, answer.kind === "sorry");
      }
    },
    batch: (answer) => repaint.batch.heard(answer),
    glimpse: (answer) => repaint.video.glimpsed(answer),
    video: (answer) => repaint.video.heard(answer),
  };

  // Settings by their names, those that are known here.
  function known(given) {
    return names.map((name, index) => {
      const value = given?.[name];
      if (value === undefined || value === null) return given && name in given && defaults[index] === null ? null : defaults[index];
      if (name === "style" && ![...document.querySelectorAll("#styles input")].some((input) => input.value === value)) return defaults[index];
      return typeof value === typeof defaults[index] || defaults[index] === null ? value : defaults[index];
    });
  }

  function apply(wanted) {
    if (!applying && JSON.stringify(wanted) === JSON.stringify(values)) return; // nothing would change
    applying = wanted;
    repaint.channels.apply();
  }

  const byName = () => Object.fromEntries(names.map((name, index) => [name, values[index]]));

  // What of a link says how to paint; it is never sent to a server.
  function linked() {
    const given = new URLSearchParams(location.hash.slice(1));
    if (!given.has("style")) return null;
    return Object.fromEntries([...given].map(([name, text]) => {
      const is = defaults[names.indexOf(name)];
      return [name, typeof is === "number" ? Number(text) : typeof is === "boolean" ? text === "true" : /^\d+$/.test(text) ? Number(text) : text];
    }));
  }

  function measured() {
    if (mode === "video") { repaint.video?.measured(); return; }
    if (mode !== "one" || !photo()?.there || running) {
      if (!running) repaint.desk?.about(mode === "one" ? "Choose a photo, then tap a style." : "Choose photos, and a style for them all.");
      return;
    }
    let [width, height] = photo().size;
    if (!width) return;
    const most = Math.max(width, height);
    if (size() && most > size()) [width, height] = [width, height].map((side) => Math.round((side * size()) / most));
    const cm = (side) => ((side / 300) * 2.54).toFixed(1);
    const inch = (side) => (side / 300).toFixed(1);
    const took = seconds[`${size()}`];
    const wait = took > 1.5 ? ` · about ${took < 90 ? `${Math.round(took)} s` : `${Math.round(took / 60)} min`}` : "";
    repaint.desk.about(`${width} × ${height} px · ${cm(width)} × ${cm(height)} cm (${inch(width)} × ${inch(height)} in)${wait}`);
  }

  async function restore() {
    const given = linked();
    let wanted = given;
    if (!wanted) {
      try { wanted = JSON.parse(localStorage.getItem(SETTINGS)); } catch { /* what is no setting is none */ }
    }
    wanted = wanted ? known(wanted) : defaults;
    if (wanted !== defaults) apply(wanted);
    const pending = localStorage.getItem(PENDING);
    history = ((await repaint.store.get("history")) ?? []).filter((one) => one.after instanceof Blob);
    repaint.result.history(history, back);
    const last = history[0];
    const kept = await photo().kept();
    const is = kept && !pending && wish === 0 && last?.of?.[0] === kept.stamp;
    if (is) present(last);
    for (const name of ["painting", "second_painting"]) await repaint.photos[name]?.restore(true);
    const restored = await photo().restore(is);
    if (restored && pending) want(pending, true);
    // All that was painted last need not be painted again.
    else if (restored && is && wish === 0 && JSON.stringify([last.of, last.values]) !== JSON.stringify([stamps(), wanted])) want("preview");
    page().dataset.ready = "yes";
  }

  for (const kind of ["pointerdown", "keydown", "input"]) addEventListener(kind, () => { touched = Date.now(); }, true);

  // A picture pasted or dropped anywhere on the page becomes the photo.
  const pictured = (files) => [...(files ?? [])].find((file) => file.type.startsWith("image/"));
  document.addEventListener("paste", (event) => {
    const file = pictured(event.clipboardData?.files);
    if (file) photo().give(file);
  });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    const file = mode === "one" && pictured(event.dataTransfer?.files);
    if (file) photo().give(file);
  });

  function every() {
    page().classList.add("everything");
    work("preview");
    photo().ready(512).then(() => repaint.channels.every({}));
  }

  // Something has ended without an answer: the line was full, as Gradio's page has said, or the
  // connection was cut. Then it is asked for again, where it is wanted still.
  async function failed(what) {
    const { cut } = repaint.connection;
    const mine = wish;
    if (cut && (running || page().classList.contains("everything"))) await reconnected();
    if (what === "every") {
      if (!page().classList.contains("everything")) return;
      page().classList.remove("everything");
      if (cut) every();
      else rest();
    } else if (what === "files") {
      const one = repaint.stage.shown;
      if (cut && mine === wish && !running && one?.kind === "painted" && !one.png) want("paint");
    } else if (mine === wish && running) {
      const { kind, byHand, tries } = running;
      if (cut && tries < TRIES) want(kind, byHand, tries + 1);
      else {
        rest();
        if (cut) say(TOO_OFTEN, true);
      }
    }
  }

  return {
    OWN,
    size,
    say,
    measured,
    failed,
    reconnected,
    sendPictures,
    // By another server, which has nothing of what is shown: it is kept here.
    replaced() {
      const kept = history.find((one) => one.id === repaint.stage.shown?.id);
      if (kept && !running) present(kept);
      repaint.batch?.replaced();
    },
    get values() { return byName(); },
    begin(given, keys) {
      [names, values, defaults] = [keys, given, given];
      page().dataset.mode = mode;
      restore();
    },
    // The settings, whenever one of them changed.
    chosen(given) {
      const before = values;
      values = given;
      localStorage.setItem(SETTINGS, JSON.stringify(byName()));
      page().classList.toggle("own", setting("style") === OWN);
      page().classList.toggle("second", Boolean(setting("second")));
      page().classList.toggle("second-own", setting("second") === OWN);
      document.querySelector("#styles .chosen")?.replaceChildren(styleName());
      measured();
      if (applying) {
        if (JSON.stringify(applying) === JSON.stringify(given)) applying = null;
        return;
      }
      if (JSON.stringify(before) === JSON.stringify(given)) return;
      if (mode === "video") repaint.video.changed();
      if (mode !== "one") return;
      clearTimeout(later);
      const differ = names.filter((_, index) => before[index] !== given[index]);
      // What the browser can show of less strength by itself is shown while the slider moves.
      if (differ.length === 1 && differ[0] === "strength") repaint.stage.fade(setting("strength"));
      const live = differ.includes("style") || (!running && differ.every((name) => FINISH.includes(name)));
      if (painted()) { ++wish; rest(); return; }
      repaint.stage.stale("Not painted yet");
      later = setTimeout(() => want("preview"), live ? 0 : LIVE);
    },
    // A picture was chosen (there: it is on the server), or taken away.
    pictured(what, there, quietly = false) {
      if (what === "photo") {
        if (photo().there && photo().url && !there) repaint.stage.photo(photo().url);
        // Styles that show the photo before show the example again.
        if (!there && !quietly) for (const picture of document.querySelectorAll("#styles img[data-usual]")) picture.src = picture.dataset.usual;
        if (!photo().there) { ++wish; rest(); }
        page().classList.toggle("photo", photo().there);
        if (!quietly) seconds = {};
      }
      measured();
      if (there && !quietly && mode === "one" && !localStorage.getItem(PENDING)) want("preview");
    },
    applied() { return applying ?? values; },
    apply,
    paint() {
      if (mode === "one") want("paint", true);
      else repaint[mode === "many" ? "batch" : "video"].begin();
    },
    async ready(kind = "paint") { return ready(kind); },
    stop() {
      repaint.channels.stop();
      // What is finished of many comes still; of one there is nothing to wait for.
      if (mode === "one") { ++wish; rest(); say("Stopped."); page().classList.remove("everything"); }
      else if (repaint.connection.cut) this.stopped();
    },
    // Without the server, from which nothing more is heard of it.
    stopped() {
      if (mode !== "one" && page().classList.contains("busy"))
        repaint[mode === "many" ? "batch" : "video"].heard({ kind: "stopped" });
    },
    every() {
      if (!page().classList.contains("everything")) every();
    },
    about() {
      const one = repaint.stage.shown;
      if (one?.png) repaint.channels.about({ wish: one.id, picture: { path: one.png }, style: setting("style") });
    },
    // A result becomes the photo.
    async over(one) {
      const preview = await (await fetch(repaint.pictures.address(one.after))).blob();
      const image = await createImageBitmap(preview);
      photo().use({ path: one.png, name: `${one.name}.${one.png ? "png" : "jpg"}`, preview, width: image.width, height: image.height, source: null });
      scrollTo({ top: 0, behavior: "smooth" });
    },
    reset() {
      apply(defaults);
      setTimeout(() => {
        if (mode === "one") want("preview");
        else if (mode === "video") repaint.video.changed();
      }, 200);
    },
    link() {
      const changed = names.map((name, index) => [name, values[index], defaults[index]])
        .filter(([name, value, usual]) => name === "style" || value !== usual)
        .filter(([, value]) => value !== null && value !== OWN);
      const address = new URL(location.href);
      address.hash = new URLSearchParams(changed.map(([name, value]) => [name, String(value)]));
      return address.href;
    },
    mode(name) {
      mode = name;
      page().dataset.mode = name;
      repaint.desk.label(LABELS[name]);
      measured();
      if (name === "video") repaint.video.changed();
      if (name === "many") repaint.batch.open();
    },
    working(is) { if (is) work("many"); else rest(); },
    heard(name, answer) { hearing[name]?.(answer); },
  };
})();
