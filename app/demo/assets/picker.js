const radios = [...element.querySelectorAll("input[type=radio]")];

function show() {
  for (const radio of radios) radio.checked = radio.value === props.value;
  const chosen = radios.find((radio) => radio.checked);
  element.querySelector(".chosen").textContent = chosen?.dataset.title ?? "";
}

for (const radio of radios) {
  radio.addEventListener("change", () => {
    props.value = radio.value;
    show();
  });
}
element.querySelector(".every").addEventListener("click", () => repaint.director.every());
watch("value", show);
show();
// The chosen one is seen where the row is longer than the screen.
const row = element.querySelector(".groups");
const first = radios.find((radio) => radio.checked);
if (first && row.scrollWidth > row.clientWidth)
  row.scrollLeft = first.closest(".group")?.offsetLeft - row.offsetLeft - 8;
