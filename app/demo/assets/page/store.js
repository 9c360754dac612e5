// What is kept on the visitor's own device, for a reload or a lost connection: nothing of it is
// ever sent anywhere but to be painted again.
window.repaint = { channels: {} };

repaint.store = (() => {
  const NAME = "repaint";
  let opening;

  function open() {
    opening ??= new Promise((resolve, reject) => {
      const asked = indexedDB.open(NAME, 1);
      asked.onupgradeneeded = () => asked.result.createObjectStore("kept");
      asked.onsuccess = () => resolve(asked.result);
      asked.onerror = () => reject(asked.error);
    });
    return opening;
  }

  // A browser that keeps nothing (a private window, a full disk) is no reason not to paint.
  async function use(mode, what) {
    try {
      const kept = (await open()).transaction("kept", mode).objectStore("kept");
      return await new Promise((resolve, reject) => {
        const asked = what(kept);
        asked.onsuccess = () => resolve(asked.result);
        asked.onerror = () => reject(asked.error);
      });
    } catch (error) {
      console.debug("not kept", error);
      return undefined;
    }
  }

  return {
    get: (key) => use("readonly", (kept) => kept.get(key)),
    set: (key, value) => use("readwrite", (kept) => kept.put(value, key)),
    remove: (key) => use("readwrite", (kept) => kept.delete(key)),
  };
})();
