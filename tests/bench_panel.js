// When something is seen on the page: at the first task after the frame that painted it. All times
// are milliseconds as in performance.now(), and those of events are, too.

window.find = selector => document.querySelector(selector);
window.position = handle => find(handle).getAttribute("aria-valuetext");
const CLOCK = ".leaselab-clock .noUi-handle";
const NAIVE = ".widget-interact img";

window.titled = t => RegExp(`t=${t}[:;]`).test(find(".leaselab-title").textContent);
window.answered = t => titled(t)
  && find(".leaselab th:last-child").textContent === `lease_until <= ${t}`
  && RegExp(`to t=${t}:`).test(find(".leaselab-above img[alt^=t]").alt);

async function painted() {
  await new Promise(requestAnimationFrame);
  await new Promise(done => {
    const channel = new MessageChannel();
    channel.port1.onmessage = done;
    channel.port2.postMessage(null);
  });
  return performance.now();
}

function onChange(look) {
  const observer = new MutationObserver(() => look(observer));
  const all = {subtree: true, childList: true, characterData: true, attributes: true};
  observer.observe(document.body, all);
}

// From the next key press on this handle until these are seen; the promise of it is in `seen`.
window.expect = (handle, names) => {
  const before = position(handle), picture = find(NAIVE).src;
  const there = {
    handle: () => true,
    title: titled,
    answer: answered,
    bare: t => find(".bench-echo .widget-html-content").textContent === t,
    naive: () => find(NAIVE) && find(NAIVE).src !== picture,
  };
  const once = {once: true, capture: true};
  const key = new Promise(pressed => addEventListener("keydown", pressed, once));
  const seen = name => new Promise((done, fail) => {
    setTimeout(() => fail(`${name} was not seen within 30 seconds`), 30000);
    onChange(async observer => {
      const t = position(handle);
      if (t === before || !there[name](t)) return;
      observer.disconnect();
      if (name === "naive") await find(NAIVE).decode();  // the panel's images say decoding="sync"
      done(await painted() - (await key).timeStamp);
    });
  });
  window.seen = Promise.all(names.map(seen));
};

// From now on `drag` says when the handle last moved, and when the answer to that was seen.
window.follow = () => {
  window.drag = {t: position(CLOCK)};
  onChange(async () => {
    const t = position(CLOCK);
    if (t !== drag.t) window.drag = {t, moved: performance.now()};
    const latest = drag;
    if (!latest.seen && answered(t)) latest.seen = await painted();
  });
};
