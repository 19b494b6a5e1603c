// Compares two requests: added, removed and changed values, by JSON pointer.

const SHORT_VALUE = 160;
const AROUND = 240;
const SIGNS = { added: "+", removed: "−", changed: "~" };

const asText = (value) => (typeof value === "string" ? value : indented(value));

// Shows the ends of an equal part, with a button for its middle.
function samePiece(text, isFirst, isLast) {
  if (text.length <= 3 * AROUND) return visible(text);
  const head = isFirst ? "" : cutAt(text, AROUND);
  const tail = isLast ? "" : text.slice(text.length - AROUND);
  const middle = text.slice(head.length, text.length - tail.length);
  const gap = button("… " + count(middle.length) + " characters the same …", () => {
    gap.replaceWith(visible(middle.slice(0, STEP)), middle.length > STEP ? h("span.more", null, " … cut … ") : "");
  }, { class: "gap" });
  return h("span", null, head, gap, tail);
}

function changedPiece(kind, text) {
  const made = h(kind === "gone" ? "del" : "ins", null, text.slice(0, STEP));
  if (text.length <= STEP) return made;
  return h("span", null, made, h("span.more", null, " … " + count(text.length - STEP) + " more characters"));
}

function wordDiff(before, now, names) {
  const { pieces, by } = textChanges(before, now);
  const place = h("pre.words", { tabindex: "0" });
  pieces.slice(0, 4000).forEach(({ kind, text }, at) => {
    place.append(kind === "same" ? samePiece(text, at === 0, at === pieces.length - 1) : changedPiece(kind, text));
  });
  const say = { words: "", lines: "compared by lines, because too much changed", ends: "not aligned, because too much changed" };
  return h("div", null,
    h("p.label", null, h("del", null, names[0]), " ", h("ins", null, names[1]), say[by] && " · " + say[by]), place);
}

function oneSide(name, value) {
  const shown = value === null || value === undefined ? h("p.faint", null, "nothing") : longText(asText(value), { step: 20000 });
  return h("div", null, h("p.label", null, name), shown);
}

// Short values are shown side by side, long ones are compared word by word.
function bothValues(before, now, names) {
  const [a, b] = [before, now].map((it) => (it === null || it === undefined ? null : asText(it)));
  if (a !== null && b !== null && Math.max(a.length, b.length) > SHORT_VALUE) return wordDiff(a, b, names);
  return h("div.sides", null, oneSide(names[0], a), oneSide(names[1], b));
}

function changeBody(change, names) {
  if (change.kind === "changed") return bothValues(change.before, change.now, names);
  return longText(asText(change.kind === "added" ? change.now : change.before), { step: 20000 });
}

function changeRow(change, names, open) {
  const value = change.kind === "removed" ? change.before : change.now;
  const title = [h("b.sign." + change.kind, { "aria-hidden": "true" }, SIGNS[change.kind]),
    h("span.kind", null, change.kind), h("code", null, change.pointer || "(the whole body)"),
    h("span.faint.peek", null, oneLine(typeof value === "string" ? value : previewOf(value), 100))];
  return fold(title, (inside) => inside.append(changeBody(change, names)),
    { open, name: "details.change." + change.kind, data: { pointer: change.pointer, change: change.kind } });
}

// Returns a one-line preview of a value.
function previewOf(value) {
  if (!isBranch(value)) return String(value);
  if (Array.isArray(value)) return many(value.length, "element");
  const brief = ([key, it]) => key + ": " + (isBranch(it) ? "…" : oneLine(String(it), 40));
  return Object.entries(value).slice(0, 4).map(brief).join(", ");
}

// Headers have pointers of the form `header:NAME`, as in a verdict.
function headerChanges(before, now) {
  const gather = (headers) => {
    const by = new Map();
    for (const [name, value] of headers) by.set(name.toLowerCase(), [...(by.get(name.toLowerCase()) ?? []), value]);
    return new Map([...by].map(([name, values]) => [name, values.join(", ")]));
  };
  const [a, b] = [gather(before.headers), gather(now.headers)];
  const changes = [];
  if (before.line !== now.line) changes.push({ kind: "changed", pointer: "line", before: before.line, now: now.line });
  for (const [name, value] of a) {
    if (!b.has(name)) changes.push({ kind: "removed", pointer: "header:" + name, before: value });
    else if (b.get(name) !== value) changes.push({ kind: "changed", pointer: "header:" + name, before: value, now: b.get(name) });
  }
  for (const [name, value] of b) if (!a.has(name)) changes.push({ kind: "added", pointer: "header:" + name, now: value });
  return changes;
}

async function runInSlices(work) {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
    await breathe();
  }
}

async function bodyChanges(before, now) {
  if (before.text === now.text && before.base64 === now.base64) return { changes: [], more: false, equal: true };
  if (typeof before.text !== "string" || typeof now.text !== "string") return { changes: [], more: false, unreadable: true };
  await breathe();
  const [a, b] = [parsed(before.text), parsed(now.text)];
  if (!a || !b) return { changes: [{ kind: "changed", pointer: "", before: before.text, now: now.text }], more: false };
  await breathe();
  try {
    return await runInSlices(changesBetween(a.value, b.value));
  } catch (error) {
    // Nested too deeply for the engine's stack: compare as text.
    if (!(error instanceof RangeError)) throw error;
    return { changes: [{ kind: "changed", pointer: "", before: before.text, now: now.text }], more: false };
  }
}

function firstDifferentByte(a, b) {
  const { head } = commonEnds(a, b);
  const around = (text) => text.slice(Math.max(0, head - 40), head + 80);
  return h("div", null, h("p", null, "As JSON they are equal; the bytes differ from character " + count(head) + " on."),
    h("div.sides", null, oneSide("before", around(a)), oneSide("now", around(b))));
}

function tally(changes) {
  const of = (kind) => changes.filter((it) => it.kind === kind).length;
  return of("added") + " added, " + of("removed") + " removed, " + of("changed") + " changed";
}

// Compares the requests of two blocks; `ids` starts with the earlier one.
async function compareInto(inside, ids, names, at) {
  inside.replaceChildren(h("p.faint", { role: "status" }, "comparing …"));
  const [before, now] = [await block(ids[0]), await block(ids[1])];
  if (!before || !now) return inside.replaceChildren(h("p.faint", null, "one of the two is not on this page"));
  const [a, b] = [await bodyOf(ids[0], "request"), await bodyOf(ids[1], "request")];
  const of = await bodyChanges(a, b);
  const changes = [...headerChanges(before.request, now.request), ...of.changes];
  const list = h("div.changes");
  const put = (from) => {
    changes.slice(from, from + 200).forEach((it, n) => list.append(changeRow(it, names, from + n < 8 || it.pointer === at)));
    if (changes.length > from + 200) {
      const more = moreButton("show more of " + count(changes.length), () => { more.remove(); put(from + 200); });
      list.append(more);
    }
  };
  put(0);
  inside.replaceChildren(
    h("p", null, changes.length ? tally(changes) : of.unreadable ? "binary, cannot be compared by value" : "no differences",
      of.more && " · incomplete: the comparison reached its limit"),
    list, !of.changes.length && !of.equal && !of.unreadable ? firstDifferentByte(a.text, b.text) : "");
  const goal = at ? list.querySelector(".change[data-pointer=\"" + CSS.escape(at) + "\"]") : null;
  if (goal) await scrollToElement(goal, "center");
}
