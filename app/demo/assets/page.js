() => {
  // A picture pasted anywhere on the page becomes the photo.
  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    const picture = files.find((file) => file.type.startsWith("image/"));
    if (!picture) return;
    const give = () => {
      const input = document.querySelector("#photo input[type=file]");
      if (!input) return false;
      const given = new DataTransfer();
      given.items.add(picture);
      input.files = given.files;
      input.dispatchEvent(new Event("change", { bubbles: true }));
      return true;
    };
    if (give()) return;
    // The place of the upload is taken by a photo: it comes back when that is removed.
    const place = document.querySelector("#photo");
    const waiting = new MutationObserver(() => give() && waiting.disconnect());
    waiting.observe(place, { childList: true, subtree: true });
    place.querySelector(".icon-button-wrapper button")?.click();
  });
}
