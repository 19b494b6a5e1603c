// The tree of lanes with their turns, and the page of one lane.

// With more turns than this, only opened lanes list theirs.
const MAX_LISTED = 1500;

function turnRow(at) {
  const turn = report.turns[at];
  const did = turn.calls.length ? oneLine(callsInShort(turn.calls), 80) : null;
  const signs = [...turn.marks.map((mark) => chip(words(mark), "warn")),
    turn.exchanges.length > 1 && chip(turn.exchanges.length + " attempts", "warn"),
    turn.errors > 0 && chip(many(turn.errors, "error"), "bad"),
    hasFailed(report.exchanges[lastExchange(turn)]) && chip("failed", "bad"),
    isOpen(report.exchanges[lastExchange(turn)]) && chip("no end seen", "warn")];
  return h("a.turn", { href: address({ turn: turnKey(turn) }), data: { turn: turnKey(turn) } },
    h("span.number", null, String(turn.turn)), signs,
    did && h("span.did", null, did), h("span.said", null, turn.said ? oneLine(turn.said, 120) : did ? "" : words(turn.stop ?? "")));
}

// Summarises calls, as in "Read ×3, Task".
function callsInShort(calls) {
  const times = new Map();
  for (const name of calls) times.set(name, (times.get(name) ?? 0) + 1);
  return [...times].map(([name, n]) => (n > 1 ? name + " ×" + n : name)).join(", ");
}

function laneFold(at) {
  const lane = report.lanes[at];
  const of = turnsOfLane[at];
  const title = [h("span.kind." + lane.kind, { "aria-hidden": "true" }),
    h("a", { href: address({ lane: lane.id }), title: lane.id }, ownName(lane.id)), lane.agent && h("span.agent", null, lane.agent),
    h("span.faint", null, [lane.kind === "main" ? null : lane.kind, lane.background ? "background" : null, many(of.length, "turn")].filter(Boolean).join(" · ")),
    lane.state && lane.state !== "completed" && chip(words(lane.state), /fail|error|interrupt/.test(lane.state) ? "bad" : "warn")];
  const made = fold(title, (inside) => appendSlowly(inside, of, turnRow, 300).complete,
    { name: "details.lane", open: report.turns.length <= MAX_LISTED || lane.kind === "main", data: { lane: lane.id } });
  made.style.marginLeft = Math.min(lane.depth, 8) * 14 + "px";
  return made;
}

function lanesTree() {
  return appendSlowly(h("nav.tree", { "aria-label": "lanes and turns" }), report.lanes, (_, at) => laneFold(at), 30);
}

// Opens the lane of a turn if necessary, and returns the turn's row.
async function rowInTree(tree, key) {
  await tree.complete;
  const lane = tree.querySelector(".lane[data-lane=\"" + CSS.escape(key.slice(0, key.lastIndexOf(":"))) + "\"]");
  if (lane && !lane.open) {
    lane.open = true;
    lane.dispatchEvent(new Event("toggle"));
  }
  await lane?.querySelector(".inside")?.complete;
  return tree.querySelector(".turn[data-turn=\"" + CSS.escape(key) + "\"]");
}

function usageLine(usage, usd) {
  return [["read", usage.read], ["written", usage.write], ["input", usage.input], ["output", usage.output]]
    .map(([name, n]) => h("span.figure", null, h("b", null, count(n)), " " + name))
    .concat(usd === null || usd === undefined ? [] : [h("span.figure", null, h("b", null, dollars(usd)))]);
}

// Sums up the times of each lane.
function timesOfLanes() {
  const lanes = report.lanes.map(() => ({ from: Infinity, to: -Infinity, wait: 0, stream: 0, tools: 0, requests: 0, failed: 0, open: 0 }));
  for (const it of report.exchanges) {
    const lane = lanes[it.lane];
    if (!lane) continue;
    lane.requests++;
    lane.failed += hasFailed(it) ? 1 : 0;
    if (it.at === null) continue;
    const end = endOf(it);
    lane.open += isOpen(it) ? 1 : 0;
    lane.from = Math.min(lane.from, it.at);
    lane.to = Math.max(lane.to, end);
    lane.wait += (it.first ?? end) - it.at;
    lane.stream += end - (it.first ?? end);
  }
  for (const it of report.tools) if (it.end !== null) lanes[it.lane].tools += it.end - it.at;
  return lanes;
}

function laneTimes(at) {
  const it = timesOfLanes()[at];
  if (it.to < it.from) return null;
  return duration(it.to - it.from) + ": " + duration(it.wait) + " waiting for first bytes, " + duration(it.stream) + " streaming" + (it.open ? "; " + many(it.open, "request") + " without an end" : "");
}

function lanesTable(timed) {
  const times = timesOfLanes();
  const us = (at, name) => (times[at].to < times[at].from || !times[at][name] ? "–" : duration(times[at][name]));
  const when = timed ? [{ head: "from", n: true, cell: (at) => (times[at].to < times[at].from ? "–" : clock(times[at].from, 1e5)) },
    { head: "lasts", n: true, cell: (at) => (times[at].to < times[at].from ? "–" : duration(times[at].to - times[at].from)) },
    { head: "waiting", n: true, title: "for first bytes", cell: (at) => us(at, "wait") }, { head: "streaming", n: true, cell: (at) => us(at, "stream") },
    { head: "in tools", n: true, title: "sum over all tools, including concurrent ones", cell: (at) => us(at, "tools") }] : [];
  const name = (at) => {
    const cell = h("td", null, h("span.kind." + report.lanes[at].kind, { "aria-hidden": "true" }), " ", laneLink(at), " ", h("span.faint", null, report.lanes[at].agent ?? report.lanes[at].kind));
    cell.style.paddingLeft = .7 + Math.min(report.lanes[at].depth, 8) * .8 + "rem";
    return cell;
  };
  return table([{ head: "lane", cell: name }, { head: "turns", n: true, cell: (at) => count(turnsOfLane[at].length) },
    { head: "requests", n: true, cell: (at) => [times[at].failed > 0 && h("span.ink-bad", null, times[at].failed + " failed of "), times[at].open > 0 && h("span.ink-warn", null, times[at].open + " open of "), count(times[at].requests)] },
    ...when, { head: "in", n: true, title: "tokens sent, cached or not", cell: (at) => tokens(report.lanes[at].usage.input + report.lanes[at].usage.read + report.lanes[at].usage.write) },
    { head: "out", n: true, cell: (at) => tokens(report.lanes[at].usage.output) }, { head: "cost", n: true, cell: (at) => dollars(report.lanes[at].usd) }],
  report.lanes.map((_, at) => at), (at) => ({ data: { lane: report.lanes[at].id } }));
}

function lanePage(at) {
  const lane = report.lanes[at];
  const children = report.lanes.flatMap((it, child) => (it.parent === at ? [child] : []));
  const by = lane.spawned?.turn ?? null;
  return h("article", { data: { page: "lane", lane: lane.id } },
    h("h2", { tabindex: "-1" }, lane.id, " ", chip(lane.kind), lane.background && chip("background")),
    definitions([["agent", lane.agent], ["model", lane.model], ["state", lane.state && words(lane.state)],
      ["parent", lane.parent === null ? null : laneLink(lane.parent)],
      ["started by", by === null ? lane.spawned?.call : [turnLink(by), lane.spawned.call && h("code.faint", null, " " + lane.spawned.call)]],
      ["started", children.length ? h("span.list", null, children.map((child) => laneLink(child))) : null],
      ["tokens", usageLine(lane.usage, lane.usd)], ["time", laneTimes(at)]]),
    lane.final && h("section", null, h("h3", null, "Final text"), longText(lane.final)),
    h("h3", null, many(turnsOfLane[at].length, "turn")),
    table([{ head: "turn", n: true, cell: (turn) => turnLink(turn, null, String(report.turns[turn].turn)) },
      { head: "calls", cell: (turn) => oneLine(callsInShort(report.turns[turn].calls), 60) },
      { head: "said", long: true, cell: (turn) => oneLine(report.turns[turn].said ?? "", 160) },
      { head: "results", n: true, cell: (turn) => count(report.turns[turn].results) },
      { head: "read", n: true, cell: (turn) => tokens(report.turns[turn].usage?.read) },
      { head: "output", n: true, cell: (turn) => tokens(report.turns[turn].usage?.output) },
      { head: "cost", n: true, cell: (turn) => dollars(report.turns[turn].usd) }],
    turnsOfLane[at], (turn) => ({ data: { turn: turnKey(report.turns[turn]) } })));
}
