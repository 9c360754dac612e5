const radios = [...element.querySelectorAll("input[type=radio]")];

function show() {
  for (const radio of radios) radio.checked = radio.value === props.value;
}

for (const radio of radios) {
  radio.addEventListener("change", () => {
    props.value = radio.value;
    trigger("input");
  });
}
watch("value", show);
show();
