// Differences of two values and of two texts. Pure functions with bounded cost.

const MAX_CHANGES = 2000;
const MAX_VALUES = 3e6;
const MAX_WORDS = 60000;
const MAX_EDITS = 600;

const isBranch = (value) => typeof value === "object" && value !== null;
const pointerTo = (pointer, key) => pointer + "/" + String(key).replace(/~/g, "~0").replace(/\//g, "~1");

// Compares JSON values. The order of keys does not matter.
function sameValue(a, b) {
  if (a === b) return true;
  if (!isBranch(a) || !isBranch(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && sameValue(a[key], b[key]));
}

// Named elements, such as tools, are paired by name; others by their position from both ends.
function nameOf(item) {
  if (!isBranch(item) || Array.isArray(item)) return null;
  const name = item.name ?? item.id ?? item.tool_use_id;
  return typeof name === "string" ? name : null;
}

function byName(items) {
  const names = new Map();
  for (let at = 0; at < items.length; at++) {
    const name = nameOf(items[at]);
    if (name === null || names.has(name)) return null;
    names.set(name, at);
  }
  return names;
}

function pairsByName(a, b) {
  const [before, now] = [byName(a), byName(b)];
  if (!before || !now || !a.length || !b.length) return null;
  const pairs = [...before].map(([name, at]) => [at, now.get(name) ?? null]);
  for (const [name, at] of now) if (!before.has(name)) pairs.push([null, at]);
  return pairs;
}

function pairsByPlace(a, b) {
  let head = 0;
  const short = Math.min(a.length, b.length);
  while (head < short && sameValue(a[head], b[head])) head++;
  let tail = 0;
  while (tail < short - head && sameValue(a[a.length - 1 - tail], b[b.length - 1 - tail])) tail++;
  const pairs = [];
  for (let at = head; at < Math.max(a.length, b.length) - tail; at++) {
    pairs.push([at < a.length - tail ? at : null, at < b.length - tail ? at : null]);
  }
  return pairs;
}

function pairsOfKeys(a, b) {
  const pairs = Object.keys(a).map((key) => [key, Object.hasOwn(b, key) ? key : null]);
  for (const key of Object.keys(b)) if (!Object.hasOwn(a, key)) pairs.push([null, key]);
  return pairs;
}

function pairsOf(a, b) {
  if (!Array.isArray(a)) return pairsOfKeys(a, b);
  return pairsByName(a, b) ?? pairsByPlace(a, b);
}

// Yields regularly, so that the caller can let the page respond. A change is {kind, pointer, before, now}.
function* changesBetween(a, b) {
  const found = { changes: [], more: false };
  const open = [[a, b, "", ""]];
  for (let visited = 0; open.length; visited++) {
    if (found.changes.length >= MAX_CHANGES || visited > MAX_VALUES) {
      found.more = true;
      break;
    }
    if (visited % 200 === 199) yield;
    const next = open.pop();
    if (!Array.isArray(next)) {
      found.changes.push(next);
      continue;
    }
    const [before, now, was, is] = next;
    if (!isBranch(before) || !isBranch(now) || Array.isArray(before) !== Array.isArray(now)) {
      if (before !== now) found.changes.push({ kind: "changed", pointer: is, before, now });
      continue;
    }
    const under = [];
    for (const [from, to] of pairsOf(before, now)) {
      if (to === null) under.push({ kind: "removed", pointer: pointerTo(was, from), before: before[from] });
      else if (from === null) under.push({ kind: "added", pointer: pointerTo(is, to), now: now[to] });
      else under.push([before[from], now[to], pointerTo(was, from), pointerTo(is, to)]);
    }
    // A stack returns the last element first.
    for (const it of under.reverse()) open.push(it);
  }
  return found;
}

function commonEnds(a, b) {
  const short = Math.min(a.length, b.length);
  let head = 0;
  while (head < short && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < short - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  return { head, tail };
}

// Returns the shortest edit script of at most `most` steps between two lists (Myers), or null.
function editsBetween(a, b, most) {
  const trace = [];
  const furthest = new Int32Array(2 * most + 3);
  const middle = most + 1;
  for (let d = 0; d <= most; d++) {
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && furthest[middle + k - 1] < furthest[middle + k + 1]);
      let x = down ? furthest[middle + k + 1] : furthest[middle + k - 1] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      furthest[middle + k] = x;
      if (x >= a.length && x - k >= b.length) return walkBack(a, b, trace, d, k);
    }
    trace.push(furthest.slice(middle - d, middle + d + 1));
  }
  return null;
}

function walkBack(a, b, trace, d, k) {
  const steps = [];
  let x = a.length;
  for (; d > 0; d--) {
    const before = trace[d - 1];
    const at = (diagonal) => before[diagonal + d - 1] ?? -1;
    const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const from = down ? k + 1 : k - 1;
    const start = at(from);
    const reached = down ? start : start + 1;
    for (; x > reached; x--) steps.push(["same", a[x - 1]]);
    steps.push(down ? ["new", b[start - from]] : ["gone", a[start]]);
    x = start;
    k = from;
  }
  for (; x > 0; x--) steps.push(["same", a[x - 1]]);
  return steps.reverse();
}

function joined(steps) {
  const pieces = [];
  for (const [kind, text] of steps) {
    const last = pieces[pieces.length - 1];
    if (last && last.kind === kind) last.parts.push(text);
    else pieces.push({ kind, parts: [text] });
  }
  return pieces.map(({ kind, parts }) => ({ kind, text: parts.join("") }));
}

const WORDS = /\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;
const LINES = /[^\n]*\n|[^\n]+/g;

function splitBounded(text, pattern) {
  const parts = text.match(pattern) ?? [];
  return parts.length > MAX_WORDS ? null : parts;
}

function editsOf(a, b, pattern) {
  const [before, now] = [splitBounded(a, pattern), splitBounded(b, pattern)];
  return before && now && editsBetween(before, now, MAX_EDITS);
}

// Moves a cut to a word boundary, so that it splits neither words nor surrogate pairs.
function atWord(text, at, step) {
  for (let left = 40; left > 0 && at > 0 && at < text.length; left--) {
    if (/\s/.test(text[at - (step < 0 ? 1 : 0)])) break;
    at += step;
  }
  return at;
}

// Returns {pieces: [{kind: same|gone|new, text}], by: "words"|"lines"|"ends"}: the finest variant whose cost
// is bounded.
function textChanges(a, b) {
  let { head, tail } = commonEnds(a, b);
  head = atWord(a, head, -1);
  tail = a.length - Math.min(a.length, Math.max(atWord(a, a.length - tail, 1), head, a.length - tail));
  const gone = a.slice(head, a.length - tail);
  const fresh = b.slice(head, b.length - tail);
  const long = gone.length + fresh.length > 1e6;
  const words = long ? null : editsOf(gone, fresh, WORDS);
  const lines = words || gone.length + fresh.length > 4e6 ? null : editsOf(gone, fresh, LINES);
  const middle = words ?? lines ?? [["gone", gone], ["new", fresh]];
  const steps = [["same", a.slice(0, head)], ...middle, ["same", a.slice(a.length - tail)]];
  return { pieces: joined(steps.filter(([, text]) => text !== "")), by: words ? "words" : lines ? "lines" : "ends" };
}
