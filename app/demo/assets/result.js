const $ = (what) => element.querySelector(what);
const [actions, png, jpg] = [".actions", ".png", ".jpg"].map($);
const { pictures, sharing } = repaint;
let shown = null; // what is on the stage

function file(link, url, name) {
  if (url) {
    link.href = url;
    link.download = name;
    link.setAttribute("aria-disabled", "false");
    link.tabIndex = 0;
  } else {
    link.removeAttribute("href");
    link.setAttribute("aria-disabled", "true");
  }
}

function facts(rows) {
  const list = $("dl");
  list.replaceChildren();
  for (const [name, value] of Object.entries(rows)) {
    const [term, said] = [document.createElement("dt"), document.createElement("dd")];
    [term.textContent, said.textContent] = [name, value];
    list.append(term, said);
  }
  $(".facts").hidden = !list.children.length;
}

repaint.result = {
  show(one) {
    shown = one;
    actions.hidden = one.kind !== "painted";
    this.files(one);
    facts(one.facts ?? {});
    for (const button of element.querySelectorAll(".strip button"))
      button.setAttribute("aria-current", String(button.dataset.id === String(one.id)));
  },
  hide() {
    actions.hidden = true;
    facts({});
  },
  files({ png: first, jpg: second, name }) {
    file(png, first && pictures.address(first), `${name}.png`);
    file(jpg, second && pictures.address(second), `${name}.jpg`);
  },
  facts,
  history(list, choose) {
    $(".history").hidden = !list.length;
    $(".strip").replaceChildren(
      ...list.map((one) => {
        const [button, picture] = [document.createElement("button"), document.createElement("img")];
        button.type = "button";
        button.dataset.id = one.id;
        button.setAttribute("aria-current", String(shown?.id === one.id));
        picture.src = URL.createObjectURL(one.after);
        picture.alt = `Go back to: ${one.name}`;
        button.append(picture);
        button.addEventListener("click", () => choose(one));
        const item = document.createElement("div");
        item.setAttribute("role", "listitem");
        item.append(button);
        return item;
      }),
    );
  },
};

const say = (text) => repaint.director.say(text);
async function doing(button, work) {
  button.disabled = true;
  try {
    await work();
  } catch (error) {
    console.debug(error);
    say("This browser does not let the page do that.");
  } finally {
    button.disabled = false;
  }
}
const action = (name, work) => $(name).addEventListener("click", (event) => doing(event.currentTarget, work));
$(".share").hidden = !navigator.share;
action(".share", async () => {
  if (!(await sharing.share(shown.jpg ?? shown.after, `${shown.name}.jpg`))) say("This device does not share pictures.");
});
action(".copy", async () => {
  await sharing.copy(shown.png ?? shown.after);
  say("The painting is copied.");
});
action(".both", async () => sharing.save(await sharing.both(shown.before, shown.after), `${shown.name}-before-and-after.jpg`));
action(".clip", async () => {
  say("The clip takes four seconds to make.");
  const { blob, ending } = await sharing.clip(shown.before, shown.after);
  sharing.save(blob, `${shown.name}.${ending}`);
});
action(".link", async () => {
  await navigator.clipboard.writeText(repaint.director.link());
  say("The link is copied. It opens the page with this style and these settings, without your photo.");
});
$(".again").addEventListener("click", () => repaint.director.over(shown));
$(".facts").addEventListener("toggle", (event) => event.currentTarget.open && repaint.director.about());
