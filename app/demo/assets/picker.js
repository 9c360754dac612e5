const radios = [...element.querySelectorAll("input[type=radio]")];

const row = element.querySelector(".groups");

// The chosen one is seen where the row is longer than the screen.
function seen(one) {
  const group = one?.closest(".group");
  if (!group) return;
  const [box, all] = [one.parentElement.getBoundingClientRect(), row.getBoundingClientRect()];
  if (box.left < all.left || box.right > all.right) row.scrollLeft = group.offsetLeft - row.offsetLeft - 8;
}

function show() {
  for (const radio of radios) radio.checked = radio.value === props.value;
  const chosen = radios.find((radio) => radio.checked);
  element.querySelector(".chosen").textContent = chosen?.dataset.title ?? "";
  seen(chosen);
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
