// Texts of any length: shows a part, and more on request, with matches marked.

const STEP = 200000;
const MAX_MARKS = 500;

// Length of the parts that are laid out separately, so that the browser can skip invisible ones.
const PIECE = 16000;

// Splits a text at line ends, or within a line that is longer than a piece.
function piecesOf(text) {
  const pieces = [];
  for (let from = 0; from < text.length; ) {
    let to = Math.min(text.length, from + PIECE);
    const line = to < text.length ? text.lastIndexOf("\n", to) : -1;
    if (line > from) to = line + 1;
    else if (to < text.length) to = from + cutAt(text.slice(from, to), to - from).length;
    pieces.push(text.slice(from, to));
    from = to;
  }
  return pieces;
}

function paintPieces(inside, text, find) {
  for (const piece of piecesOf(text)) {
    const made = h(piece.endsWith("\n") ? "div.piece" : "div.piece.goes-on");
    paint(made, piece, find);
    inside.append(made);
  }
}

// Appends text with its matches marked, up to a maximum number of marks.
function paint(inside, text, find) {
  if (!find) return inside.append(visible(text));
  let from = 0;
  let marks = 0;
  for (const { 0: hit, index: at } of text.matchAll(find)) {
    if (!hit.length || ++marks > MAX_MARKS) break;
    inside.append(visible(text.slice(from, at)), h("mark", null, hit));
    from = at + hit.length;
  }
  inside.append(visible(text.slice(from)));
}

// Returns the part to show first: the start, or the surroundings of the first match if it is further down.
function windowOf(text, step, find) {
  const at = find ? text.search(find) : -1;
  const from = at < step ? 0 : Math.max(0, at - 2000);
  return { from, to: Math.min(text.length, from + step) };
}

function moreButton(text, onclick) {
  return button(text, onclick, { class: "more", data: { more: "" } });
}

function longText(text, { step = STEP, find = null, cut = 0 } = {}) {
  if (text === "") return h("p.faint", null, "empty");
  const place = h("pre", { tabindex: "0" });
  const box = h("div.longtext", null, place);
  let { from, to } = windowOf(text, step, find);
  const put = () => {
    box.replaceChildren();
    if (from > 0) {
      box.append(moreButton("show " + count(Math.min(step, from)) + " characters before this, of " + count(from), () => {
        const start = Math.max(0, from - step);
        const part = document.createDocumentFragment();
        paintPieces(part, text.slice(start, from), find);
        place.prepend(part);
        from = start;
        put();
      }));
    }
    box.append(place);
    if (to < text.length) {
      box.append(moreButton("show " + count(Math.min(step, text.length - to)) + " more characters, of " + count(text.length - to), () => {
        const end = Math.min(text.length, to + step);
        const part = document.createDocumentFragment();
        paintPieces(part, text.slice(to, end), find);
        place.append(part);
        to = end;
        put();
      }));
    } else if (cut) {
      box.append(h("p.more", null, "… " + bytes(cut) + " more; the raw bytes are complete"));
    }
  };
  paintPieces(place, text.slice(from, to), find);
  put();
  return box;
}

// Shows a body as it was sent, with a button that indents JSON.
function bodyText(text, { find = null } = {}) {
  const box = h("div");
  const bar = h("div.bar");
  const show = (shown) => box.replaceChildren(bar, longText(shown, { find }));
  if (/^\s*[{[]/.test(text)) {
    const toggle = button("indent", () => {
      const on = toggle.getAttribute("aria-pressed") !== "true";
      const value = on ? parsed(text) : null;
      if (on && !value) {
        toggle.disabled = true;
        toggle.textContent = "not valid JSON";
        return;
      }
      toggle.setAttribute("aria-pressed", String(on));
      show(on ? indented(value.value) : text);
    }, { "aria-pressed": "false", data: { indent: "" } });
    bar.append(toggle);
  }
  bar.append(copyButton(text, "copy"), h("span.faint", null, count(text.length) + " characters"));
  show(text);
  return box;
}
