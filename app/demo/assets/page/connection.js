// The connection to the server. Gradio's page gives up where it is cut, and reloads itself once there
// is a server again: a clip, many photos and what was drawn would have to be chosen and drawn anew.
// So it never sees a cut. What it asks without a connection fails, as does what has no answer yet when
// the connection is cut; whoever wants it still asks for it again (the director's `failed`).
repaint.connection = (() => {
  const PAUSE = 1500; // milliseconds between two looks at whether the server is there
  const PATIENCE = 10_000; // for its answer
  const SILENCE = 60_000; // without a word in a stream, of which there is one every 15 s
  const ask = window.fetch.bind(window);
  const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  // All that tells one server's page from another's.
  const plan = ({ components, dependencies }) => JSON.stringify([components, dependencies]);

  const planned = plan(window.gradio_config);
  let server = window.gradio_config.app_id;
  let cut = false; // something has failed by it, and nothing was answered since
  let returning = null;
  let failing = 0;
  let unheard = null; // a Stop that the server is to be told of
  let stream = null; // what cuts the one that is open
  const unanswered = new Set(); // events, by their names

  // A proxy that has no server behind it says so in HTML, which nothing here does.
  const away = (status, kind) => status >= 502 && /html/.test(kind ?? "");

  // null where there is no server.
  async function tried(...request) {
    try {
      const answer = await ask(...request);
      return away(answer.status, answer.headers.get("content-type")) ? null : answer;
    } catch {
      return null;
    }
  }

  async function read(name) {
    const signal = AbortSignal.timeout(PATIENCE);
    const answer = await tried(repaint.pictures.root() + name, { cache: "no-store", signal });
    return answer?.ok ? answer.json().catch(() => null) : null;
  }

  async function look() {
    for (;;) {
      const found = await read("gradio_api/app_id");
      if (found?.app_id === server) {
        if (await stopped()) return;
      } else if (found) {
        const config = await read("config");
        if (config) {
          // A server with another page: this one can ask nothing of it.
          if (plan(config) !== planned) location.reload();
          server = found.app_id;
          unheard = null; // it has nothing to stop
          repaint.director.replaced();
          return;
        }
      }
      await pause(PAUSE);
    }
  }

  // Resolves once the server answers.
  function back() {
    returning ??= look().finally(() => { returning = null; });
    return returning;
  }

  // Whether there is no Stop any more of which the server has not heard: without a connection it goes
  // on with what was stopped. Told after a newer wish, it would end that.
  async function stopped() {
    while (unheard) {
      const request = unheard;
      if (!(await tried(...request))) return false;
      if (unheard === request) unheard = null;
    }
    return true;
  }

  async function stop(...request) {
    const answer = returning ? null : await tried(...request);
    if (answer) return answer;
    unheard = request;
    back();
    repaint.director.stopped();
    return Response.json({ data: [] });
  }

  async function join(...request) {
    const answer = returning ? null : await tried(...request);
    if (answer) {
      cut = false;
      const said = await answer.clone().json().catch(() => null);
      if (said?.event_id) unanswered.add(said.event_id);
      return answer;
    }
    const event_id = `cut-${++failing}`;
    unanswered.add(event_id);
    stream?.(new Error("no server")); // Gradio opens another one, which fails
    return Response.json({ event_id });
  }

  const spoken = (message) => `data: ${JSON.stringify(message)}\n\n`;

  // What Gradio's page would hear of a server at which everything has failed.
  function failure() {
    cut = true;
    const output = { error: "", visible: false };
    const all = [...unanswered].map((event_id) => spoken({ msg: "process_completed", event_id, success: false, output }));
    unanswered.clear();
    return [...all, spoken({ msg: "close_stream" })].join("");
  }

  // The messages of a stream, each as it was sent, until `ended` rejects.
  async function* messages(answer, ended) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    try {
      for (let text = ""; ;) {
        let late;
        const silence = new Promise((_, reject) => { late = setTimeout(reject, SILENCE, new Error("silence")); });
        const { value, done } = await Promise.race([reader.read(), silence, ended]).finally(() => clearTimeout(late));
        if (done) return;
        text += value;
        for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) yield text.slice(0, end);
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  function events(request) {
    const encoder = new TextEncoder();
    const ended = new Promise((_, reject) => { stream = reject; });
    const own = stream;
    ended.catch(() => {});
    const body = new ReadableStream({
      async start(controller) {
        const say = (text) => controller.enqueue(encoder.encode(text));
        try {
          const answer = await tried(request);
          for await (const line of answer?.ok ? messages(answer, ended) : []) {
            const { msg, event_id } = JSON.parse(line.replace(/^data:/, ""));
            if (msg === "unexpected_error") break;
            if (msg === "process_completed") unanswered.delete(event_id);
            say(`${line}\n\n`);
            if (msg === "close_stream") return;
          }
        } catch (error) {
          console.debug("cut", error);
        } finally {
          if (stream === own) stream = null;
        }
        if (request.signal.aborted) return;
        say(failure());
        controller.close();
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  }

  // By this stream the server knows that the page is there; of whoever closes it nothing is painted.
  async function beat({ url, headers }) {
    for (;;) {
      const answer = await tried(url, { headers });
      if (answer?.ok) await answer.body.pipeTo(new WritableStream()).catch(() => {});
      await back();
      await pause(PAUSE);
    }
  }

  window.fetch = async (what, options) => {
    const { pathname } = new URL(what.url ?? what, document.baseURI);
    if (pathname.endsWith("/queue/join")) return join(what, options);
    if (pathname.endsWith("/queue/data")) return events(what);
    if (/\/heartbeat\/\w+$/.test(pathname)) {
      beat(what);
      return new Response(new ReadableStream());
    }
    if (pathname.endsWith("/run/predict")) return stop(what, options);
    return ask(what, options);
  };

  return { back, away, get cut() { return cut; }, get server() { return server; } };
})();
