for (const button of element.querySelectorAll("button")) {
  button.addEventListener("click", async () => {
    const { file } = button.dataset;
    const blob = await (await fetch(repaint.pictures.root() + "page/" + file)).blob();
    repaint.photos.photo.give(new File([blob], file, { type: blob.type }));
  });
}
