// Searches the index at once, then all blocks in slices.

const MAX_GROUPS = 400;
const SNIPPETS = 3;
const MAX_COUNTED = 100;
const BLOCK_KEYS = /^"(request|response|line|headers|body|text|base|head|tail|base64|lost|turn|system|tools|injected|role|cut|results|call|name|error|thinking|text_cut|calls|id|input|starts)":/;

// Blocks are JSON that contains JSON, so a character may be plain or escaped once or several times.
function needle(query) {
  const hex = (c) => "\\\\+u" + c.charCodeAt(0).toString(16).padStart(4, "0");
  const plain = (c) => c.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
  const one = (c) => {
    if (c === "\\") return "\\\\+";
    if (c === "\n") return "(?:\\r?\\n|\\\\+n)";
    if (c === "\t") return "(?:\\t|\\\\+t)";
    if (c === "/") return "\\\\*/";
    if (c === "\"") return "(?:\\\\*\"|" + hex(c) + ")";
    if (/[a-z0-9 _]/i.test(c)) return c;
    return "(?:" + plain(c) + "|" + hex(c) + ")";
  };
  return new RegExp([...query].map((c) => (c.length === 2 ? "(?:" + c + "|" + hex(c[0]) + hex(c[1]) + ")" : one(c))).join(""), "gi");
}

// Removes JSON escapes from a part of a block, for reading.
function unescaped(raw) {
  return raw.replace(/\\+u([0-9a-f]{4})/gi, (_, code) => String.fromCharCode(parseInt(code, 16)))
    .replace(/\\+[nrt]/g, " ").replace(/\\+(["/])/g, "$1").replace(/\\\\/g, "\\");
}

// An unescaped quote ends the string of our own JSON; what follows is not recorded text.
function snippetOf(raw, at, length) {
  const near = raw.slice(Math.max(0, at - 80), at);
  const own = near.split(/(?<!\\)"/).pop();
  // A snippet starts at a word, not within a word or an escape.
  const before = own.length === near.length ? own.replace(/^\S{0,20}\s/, "… ").replace(/^\\*u?[0-9a-f]{0,4}(?=\\)|^\\+/, "") : own;
  const after = raw.slice(at + length, at + length + 120).split(/(?<!\\)"/, 1)[0];
  return { before: unescaped(before), hit: unescaped(raw.slice(at, at + Math.min(length, 200))), after: unescaped(after) };
}

// The same text often occurs in a request's JSON and in a turn. Shows the most readable snippets, each once.
function bestOf(snippets) {
  const noise = (it) => (it.before + it.after).replace(/[^{}[\]"\\]/g, "").length;
  const known = new Set();
  return snippets.sort((a, b) => noise(a) - noise(b)).filter((it) => {
    const letters = (text) => text.replace(/[^\p{L}\p{N}]+/gu, "");
    const sides = [letters(it.before).slice(-25) + "<", ">" + letters(it.after).slice(0, 25)];
    const isKnown = sides.some((side) => side.length > 10 && known.has(side)) || known.has(sides.join());
    [...sides, sides.join()].forEach((side) => known.add(side));
    return !isKnown;
  }).slice(0, SNIPPETS);
}

// Returns whether a match is the name of one of our own fields.
function isKey(raw, at) {
  const near = raw.slice(Math.max(0, at - 12), at + 1);
  const start = at - near.length + 1 + near.lastIndexOf("\"");
  return near.includes("\"") && raw[start - 1] !== "\\" && BLOCK_KEYS.test(raw.slice(start, start + 14));
}

function hitsIn(raw, find) {
  const found = { total: 0, snippets: [] };
  find.lastIndex = 0;
  for (let match; (match = find.exec(raw)) && found.total < MAX_COUNTED; ) {
    if (!match[0].length) break;
    if (isKey(raw, match.index)) continue;
    found.total++;
    if (found.snippets.length < 12) found.snippets.push(snippetOf(raw, match.index, match[0].length));
  }
  found.snippets = bestOf(found.snippets);
  return found;
}

// Returns the searchable texts of the index as {to, title, text}.
function indexEntries() {
  const entries = [];
  report.lanes.forEach((lane) => entries.push({ to: { lane: lane.id }, title: "lane " + lane.id,
    text: [lane.id, lane.agent, lane.model, lane.kind, lane.state, lane.spawned?.call, lane.final].filter(Boolean).join(" · ") }));
  report.turns.forEach((turn) => entries.push({ to: { turn: turnKey(turn) }, title: turnKey(turn).replace(/:(\d+)$/, " · $1"), finds: true,
    text: [turnKey(turn), ...turn.exchanges.map((it) => report.exchanges[it].id), ...new Set(turn.calls), ...turn.marks, turn.said].filter(Boolean).join(" · ") }));
  report.exchanges.forEach((it) => it.turn === null && entries.push({ to: { exchange: it.id }, title: it.id, text: it.id }));
  (report.verdict?.differences ?? []).forEach((it, at) => entries.push({ to: { difference: at + 1 }, title: "difference " + (at + 1) + " · " + it.lane + " · " + it.turn,
    text: [it.surface, it.what, it.pointer, it.golden?.slice(0, 20000), it.candidate?.slice(0, 20000)].filter(Boolean).join(" · ") }));
  return entries;
}
let indexText = null;

function inIndex(find) {
  indexText ??= indexEntries();
  return indexText.flatMap((entry) => {
    const at = entry.text.search(find);
    if (at < 0) return [];
    const hit = entry.text.slice(at).match(find)[0];
    return [{ ...entry, snippet: { before: entry.text.slice(Math.max(0, at - 60), at), hit, after: entry.text.slice(at + hit.length, at + hit.length + 100) } }];
  });
}

// Returns the ids of all blocks, those of this recording first. A shared block is found through the first
// turn that uses it.
function blockIds() {
  const ids = [];
  for (let el = document.getElementById("index"); el; el = el.nextElementSibling) if (/^[xgst]\d+$/.test(el.id)) ids.push(el.id);
  const rank = { x: 0, s: 1, t: 2, g: 3 };
  return ids.sort((a, b) => rank[a[0]] - rank[b[0]] || Number(a.slice(1)) - Number(b.slice(1)));
}

function noteShared(raw, exchange, shared) {
  for (const name of ["system", "tools"]) {
    const id = raw.match(name === "system" ? /"system":\s?"(s\d+)"/ : /"tools":\s?"(t\d+)"/)?.[1];
    if (!id) continue;
    const use = shared.get(id) ?? { exchange, turns: 0 };
    use.turns++;
    shared.set(id, use);
  }
}

const goldenToExchange = new Map(Object.entries(report.golden?.of ?? {}).map(([own, theirs]) => ["g" + theirs, Number(own)]));

function placeOf(id, shared) {
  const at = Number(id.slice(1));
  if (id[0] === "x") return { exchange: at, note: "" };
  if (id[0] === "g") return { exchange: goldenToExchange.get(id), note: "in the golden's request", extra: { compare: "golden" } };
  const use = shared.get(id);
  const what = id[0] === "s" ? "system prompt" : "tool definitions";
  return { exchange: use?.exchange, note: what + (use?.turns > 1 ? " of this and " + many(use.turns - 1, "more turn") : "") };
}

// Returns the request before each one in its lane. Earlier attempts of a turn count.
function requestsBefore() {
  const before = new Map();
  for (const turns of turnsOfLane) {
    turns.flatMap((at) => report.turns[at].exchanges).forEach((at, n, of) => before.set("x" + at, n ? "x" + of[n - 1] : null));
  }
  for (const [own, theirs] of Object.entries(report.golden?.of ?? {})) before.set("g" + theirs, goldenOf(before.get("x" + own)));
  return before;
}

const goldenOf = (id) => (id ? goldenBlock(id.slice(1)) : null);

// Searches requests. Most are stored relative to the one before, so only their new part is searched.
class Requests {
  constructor(find, longest) {
    Object.assign(this, { find: new RegExp(find.source, "i"), longest, known: new Map(), before: requestsBefore() });
  }

  // Returns the first match in the request's body, {from, to} in a text of `length`; from is -1 without a
  // match.
  async place(id) {
    if (!this.known.has(id)) this.known.set(id, await this.look(id));
    return this.known.get(id);
  }

  async look(id) {
    const body = (await block(id))?.request.body;
    const base = body?.base === undefined ? null : await this.place(body.base);
    if (!base) return this.in(body?.text ?? "");
    const { head, tail, text } = body;
    const length = head + text.length + tail;
    if (base.from >= 0 && base.to <= head) return { ...base, length };
    const end = base.length - tail;
    if (base.from >= end) return { from: base.from - base.length + length, to: base.to - base.length + length, length };
    const whole = (await requestText(id)) ?? "";
    if (base.from >= 0) return this.in(whole);
    const start = Math.max(0, head - this.longest);
    return this.in(whole, start, whole.length - tail + this.longest);
  }

  in(text, start = 0, end = text.length) {
    const match = this.find.exec(start || end < text.length ? text.slice(start, end) : text);
    return match ? { from: start + match.index, to: start + match.index + match[0].length, length: text.length } : { from: -1, to: -1, length: text.length };
  }

  // Returns whether the request contains the text, and whether the request before already did.
  async of(id) {
    if ((await this.place(id)).from < 0) return { isNew: false, isRepeated: false };
    const before = this.before.get(id) ?? (id[0] === "g" ? (await block(id)).request.body.base : null);
    const isRepeated = Boolean(before) && (await this.place(before)).from >= 0;
    return { isNew: !isRepeated, isRepeated };
  }
}

// Searches an exchange without the part that its request repeats.
async function hitsOf(id, raw, find, isNew) {
  const inRaw = hitsIn(raw, find);
  if (!inRaw.total && !isNew) return inRaw;
  const of = await block(id);
  const beside = hitsIn(JSON.stringify({ ...of, request: { ...of.request, body: null } }), find);
  // Of a request that is stored relative to another, only its new part counts. A complete one does not say
  // what is new.
  const { base, text } = of.request.body ?? {};
  const brought = isNew ? await requestText(id) : base === undefined ? null : text;
  const own = hitsIn(brought === null ? "" : JSON.stringify(brought), find);
  return { total: own.total + beside.total, snippets: bestOf([...beside.snippets, ...own.snippets]) };
}

// Calls `found` for each block with a match, and `repeated` for each request that repeats it. `wanted`
// returns false when the search is obsolete.
async function searchBlocks(find, { found, repeated, progress, wanted, longest }) {
  await blocksLoaded;
  const ids = blockIds();
  const shared = new Map();
  const requests = new Requests(find, longest);
  let read = 0;
  for (const [n, id] of ids.entries()) {
    await breathe();
    if (!wanted()) return;
    const raw = document.getElementById(id).textContent;
    read += raw.length;
    if (id[0] === "x") noteShared(raw, Number(id.slice(1)), shared);
    const isExchange = id[0] === "x" || id[0] === "g";
    const { isNew, isRepeated } = isExchange ? await requests.of(id) : { isNew: false, isRepeated: false };
    const hits = isExchange ? await hitsOf(id, raw, find, isNew) : hitsIn(raw, find);
    if (!wanted()) return;
    if (hits.total) found({ id, ...hits, ...placeOf(id, shared), isNew });
    if (isRepeated) repeated({ id, ...placeOf(id, shared) });
    if (n % 20 === 0) progress(n / ids.length, read);
  }
  progress(1, read);
}

function snippetLine(it) {
  return h("span.snippet", null, it.before, h("mark", null, it.hit), it.after);
}

class SearchPage {
  constructor() {
    this.status = h("p.faint", { role: "status", data: { searched: "" } });
    this.meter = h("progress", { max: "1", value: "0", "aria-label": "searched so far" });
    this.quick = h("div.finds");
    this.deep = h("div.finds");
    this.element = h("div", null, h("div.bar", null, this.status, this.meter), this.quick, this.deep);
    this.query = null;
  }

  run(query) {
    if (query === this.query) return;
    this.query = query;
    this.quick.replaceChildren();
    this.deep.replaceChildren();
    this.meter.hidden = !query;
    if (!query) return void (this.status.textContent = "Enter a text to search for.");
    this.find = needle(query);
    this.groups = new Map();
    this.turns = new Set();
    this.said = new Map();
    this.showIndex(inIndex(this.find));
    const wanted = () => this.query === query;
    busy(searchBlocks(this.find, { wanted, longest: 24 * query.length, found: (hit) => this.add(hit), repeated: (hit) => this.addRepeat(hit), progress: (share, read) => this.progress(share, read) }));
  }

  showIndex(finds) {
    if (!finds.length) return;
    const row = (it) => h("li", null, link(it.finds ? { ...it.to, find: this.query } : it.to, it.title), snippetLine(it.snippet));
    this.quick.append(h("h2", null, "In the index ", h("span.faint", null, count(finds.length))), h("ul.plain", null, finds.slice(0, 40).map(row)));
    if (finds.length <= 40) return;
    const more = moreButton("show all " + count(finds.length), () => {
      more.previousSibling.append(...finds.slice(40, 2000).map(row));
      more.remove();
    });
    this.quick.append(more);
  }

  progress(share, read) {
    this.meter.value = share;
    this.meter.hidden = share === 1;
    const where = many(this.turns.size, "turn");
    this.status.textContent = share === 1 ? "found in the texts of " + where + "; searched " + bytes(read) : "searching … " + Math.floor(share * 100) + " %, found in " + where;
  }

  add(hit) {
    if (!this.groups.size) this.deep.append(h("h2", null, "In the texts"));
    const exchange = report.exchanges[hit.exchange];
    const turn = exchange?.turn ?? null;
    const key = turn === null ? hit.id : turnKey(report.turns[turn]);
    const known = this.groups.has(key);
    this.turns.add(key);
    const after = h("span.line.faint");
    if (hit.isNew && turn !== null) this.said.set(hit.id[0] + report.turns[turn].lane, { last: key, turns: 0, after });
    if (!known && this.groups.size === MAX_GROUPS) this.deep.append(h("p.more", null, "more turns match; only the first " + MAX_GROUPS + " are listed"));
    if (!known) this.groups.set(key, h("section.find", { data: { find: key } }));
    const group = this.groups.get(key);
    if (this.groups.size > MAX_GROUPS && !known) return;
    const to = turn === null ? { exchange: exchange?.id, find: this.query } : { turn: key, find: this.query, ...hit.extra };
    if (!known) {
      group.append(h("h3", null, link(to, key.replace(/:(\d+)$/, " · $1")), " ", turn !== null && h("span.faint", null, oneLine(callsInShort(report.turns[turn].calls), 60))));
      this.deep.append(group);
    }
    group.append(h("p", null, link(to, ...hit.snippets.map((it) => h("span.line", null, snippetLine(it)))),
      h("span.faint", null, [hit.note, hit.total > SNIPPETS ? count(hit.total) + (hit.total >= MAX_COUNTED ? " or more" : "") + " matches" : ""].filter(Boolean).join(" · ")), after));
  }

  // Counts a repeating request at the turn that has the text first.
  addRepeat(hit) {
    const turn = report.exchanges[hit.exchange]?.turn ?? null;
    if (turn === null) return;
    const key = turnKey(report.turns[turn]);
    this.turns.add(key);
    const first = this.said.get(hit.id[0] + report.turns[turn].lane);
    if (!first || first.last === key) return;
    first.last = key;
    first.turns++;
    first.after.textContent = first.turns === 1 ? "also in the request of the next turn" : "also in the requests of the next " + count(first.turns) + " turns";
  }
}
