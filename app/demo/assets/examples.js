[...element.querySelectorAll("button")].forEach((button, index) => {
  button.addEventListener("click", () => trigger("select", { index, value: button.firstElementChild.alt }));
});
