// Comes before the page's own code: on a first visit that waits for the service worker, so that all
// that it loads is loaded once, through it.

const ALMOST = 1000; // milliseconds from a worker's start to its looking after this page, at most

// Resolves when this page is looked after, or won't be: where there are no service workers, where
// the browser does not allow them, and after a reload that goes past them.
async function lookedAfter() {
  const workers = navigator.serviceWorker;
  if (!workers || workers.controller) return;
  const controlled = new Promise((resolve) => {
    workers.addEventListener("controllerchange", resolve, { once: true });
  });
  const { active, waiting, installing } = await workers.register("sw.js");
  const worker = active ?? waiting ?? installing;
  const over = new Promise((resolve) => {
    const look = () => {
      if (worker.state === "redundant") resolve();
      if (worker.state === "activated") setTimeout(resolve, ALMOST);
    };
    worker.addEventListener("statechange", look);
    look();
  });
  await Promise.race([controlled, over]);
}

lookedAfter()
  .catch(() => {})
  .then(() => import("./page.js"))
  .catch((error) => {
    const problem = document.getElementById("problem");
    problem.textContent = `The page could not be loaded: ${error.message}`;
    problem.hidden = false;
  });
