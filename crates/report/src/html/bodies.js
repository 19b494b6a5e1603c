
"use strict";
// Bodies wait in blocks that nobody renders; one is read when it is looked at, and put in as text.
const MOST = 200000;
const odd = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const visible = (text) => text.replace(odd, (c) => "\\u{" + c.charCodeAt(0).toString(16) + "}");
const exchange = (n) => JSON.parse(document.getElementById("x" + n).textContent);

// A request mostly repeats the one before it: what it repeats is taken from there.
function whole(body) {
  const chain = [body];
  while (chain[0].base !== undefined) chain.unshift(exchange(chain[0].base).request.body);
  return chain.reduce((before, { base, head, tail, text }) =>
    base === undefined ? text : before.slice(0, head) + text + before.slice(before.length - tail), "");
}

function element(name, text, inside) {
  const made = document.createElement(name);
  made.textContent = text;
  inside.append(made);
  return made;
}

function show(body, inside) {
  if (body.lost) return element("p", "not kept", inside);
  const sent = body.base64 === undefined ? whole(body) : body.base64;
  if (body.base64 !== undefined) element("p", "not text; in base64:", inside);
  const buttons = element("div", "", inside);
  const place = element("pre", "", inside);
  let text = sent;
  const put = (most) => {
    place.textContent = visible(text.slice(0, most));
    rest.hidden = text.length <= most;
    rest.textContent = "show all " + text.length.toLocaleString("en") + " characters";
  };
  const rest = element("button", "", buttons);
  rest.onclick = () => put(Infinity);
  if (/^\s*[{[]/.test(sent)) {
    const turn = element("button", "indent", buttons);
    turn.onclick = () => {
      const indent = text === sent;
      try { text = indent ? JSON.stringify(JSON.parse(sent), null, 2) : sent; } catch { return turn.remove(); }
      turn.textContent = indent ? "as it was sent" : "indent";
      put(MOST);
    };
  }
  put(MOST);
}

function half(title, half, inside) {
  element("p", title, inside).className = "label";
  if (!half) return element("p", "none", inside);
  element("pre", visible([half.line, ...half.headers.map(([name, value]) => name + ": " + value)].join("\n")), inside);
  show(half.body, inside);
}

function fill(details) {
  const n = details.dataset.n;
  if (n === undefined || !details.open || details.childElementCount > 1) return;
  const { request, response } = exchange(n);
  half("request", request, details);
  half("response", response, details);
}

document.addEventListener("toggle", ({ target }) => fill(target), true);
// Somebody may have been faster than the page.
document.querySelectorAll("details[data-n][open]").forEach(fill);
