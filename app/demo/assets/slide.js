const input = element.querySelector("input");
const output = element.querySelector("output");
const { least, middle, most, words } = props;

// The middle of the slide is what suits the style, wherever in its range that is.
const value = (place) => {
  const part = place / 100;
  const exact = middle === null ? least + ((most - least) * part) / 2
    : part <= 1 ? least + (middle - least) * part : middle + (most - middle) * (part - 1);
  return Math.round(exact * 100) / 100;
};
const place = (v) =>
  middle === null ? (200 * (v - least)) / (most - least)
    : v <= middle ? (100 * (v - least)) / (middle - least) : 100 + (100 * (v - middle)) / (most - middle);

function name(v) {
  if (v <= least) return words[0];
  if (v >= most) return words[words.length - 1];
  if (middle !== null && Math.abs(v - middle) < 0.005) return words[1];
  return middle === null ? `${Math.round((100 * (v - least)) / (most - least))} %` : `${Math.round((100 * v) / middle)} %`;
}

function show() {
  const v = Number(props.value);
  input.value = place(v);
  output.textContent = name(v);
  input.setAttribute("aria-valuetext", name(v));
}

input.addEventListener("input", () => {
  let at = Number(input.value);
  if (middle !== null && Math.abs(at - 100) < 4) at = 100; // it is easy to go back to the style's
  props.value = value(at);
  show();
});
watch("value", show);
show();
