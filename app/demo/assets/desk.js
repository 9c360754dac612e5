const $ = (what) => element.querySelector(what);
const [paint, stop, about, said] = [".paint", ".stop", ".about", ".said"].map($);
let closing;
repaint.desk = {
  say(text, sorry = false) {
    said.hidden = !text;
    said.classList.toggle("sorry", sorry);
    said.querySelector("span").textContent = text;
    clearTimeout(closing);
    if (text && !sorry) closing = setTimeout(() => { said.hidden = true; }, 6000);
  },
  // No more of that, where it is what is said.
  unsay(text) { if (said.querySelector("span").textContent === text) this.say(""); },
  about(text) { about.textContent = text; },
  label(text) { paint.textContent = text; },
  busy(is) { stop.hidden = !is; },
};
paint.addEventListener("click", () => repaint.director.paint());
stop.addEventListener("click", () => repaint.director.stop());
$(".close").addEventListener("click", () => { said.hidden = true; });
