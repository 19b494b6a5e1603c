// One turn: its input, its reply and calls, and the bytes of each attempt.

const contains = (find, value) => find !== null && (typeof value === "string" ? value : indented(value)).search(find) >= 0;

// Creates a foldable text that is open if it contains the searched text.
function textFold(title, text, { find, cut = 0, open = false, indent = false }) {
  const shown = indent ? indentedText(text) : text;
  return fold(title, (inside) => inside.append(longText(shown, { find, cut })), { open: open || contains(find, text) });
}

function indentedText(text) {
  const value = text.length < 2e6 ? parsed(text) : null;
  return value ? indented(value.value) : text;
}

function inputParts(of, find) {
  const result = (it) => h("section.part", { data: { result: it.call ?? "" } },
    h("h4", null, "result of ", h("code", null, it.name ?? "a call"), it.error && chip("error", "bad"), h("code.faint", null, it.call)),
    longText(it.text, { find, cut: it.cut, step: 20000 }));
  const injected = (it) => h("section.part", { data: { injected: it.role } }, h("h4", null, it.role),
    longText(it.text, { find, cut: it.cut, step: 20000 }));
  const parts = [...of.results.map(result), ...of.injected.map(injected)];
  return parts.length ? parts : [h("p.faint", null, "no new input")];
}

function callPart(call, find) {
  return h("section.part", { data: { call: call.id ?? "" } },
    h("h4", null, "calls ", h("code", null, call.name), (call.starts ?? []).map((lane) => [" starts ", laneLink(lane)]), h("code.faint", null, call.id)),
    longText(indentedText(call.input), { find, cut: call.cut, step: 20000 }));
}

function reply(of, turn, find) {
  const parts = [];
  if (of.thinking) parts.push(textFold("thinking", of.thinking, { find }));
  if (of.text) parts.push(h("section.part", null, h("h4", null, "text"), longText(of.text, { find, cut: of.text_cut, step: 20000 })));
  parts.push(...of.calls.map((call) => callPart(call, find)));
  return parts.length ? parts : [h("p.faint", null, "no content" + emptyReplyReason(turn))];
}

function emptyReplyReason(turn) {
  const exchange = report.exchanges[lastExchange(turn)];
  if (turn.stop) return "; stopped: " + words(turn.stop);
  if (hasFailed(exchange)) return ": the request failed";
  return isOpen(exchange) ? ": no end of the request was seen" : "";
}

async function systemInto(inside, id, find) {
  const parts = (await block(id)) ?? [];
  inside.append(h("p.faint", null, many(parts.length, "block")),
    ...parts.map((part, at) => h("section.part", null, parts.length > 1 && h("h4", null, "block " + at),
      longText(part.text, { find, cut: part.cut, step: 50000 }))));
}

async function toolsInto(inside, id, find) {
  const tools = (await block(id)) ?? [];
  inside.append(...tools.map((tool) => textFold(h("code", null, tool.name), tool.text, { find, cut: tool.cut, indent: true })));
}

async function halfInto(inside, id, half, find) {
  const of = (await block(id))?.[half];
  if (!of) return inside.append(h("p.faint", null, half === "response" ? "no response" : "not on this page"));
  const head = [of.line, ...of.headers.map(([name, value]) => name + ": " + value)].join("\n");
  inside.append(longText(head, { find, step: 20000 }));
  const body = await bodyOf(id, half);
  if (body.lost) inside.append(h("p.faint", null, "the body was not recorded"));
  else if (body.base64 !== undefined) inside.append(h("p.faint", null, "binary, shown as base64"), bodyText(body.base64, { find }));
  else inside.append(bodyText(body.text, { find }));
}

// Returns a half with its complete body, even if it is stored relative to another request.
async function halfOf(id, half) {
  const of = (await block(id))?.[half];
  return of ? [of.line, of.headers, await bodyOf(id, half)] : "";
}

// Creates a fold for each half of an exchange.
async function rawFolds(at, find) {
  const id = "x" + at;
  const holding = {};
  for (const half of find ? ["request", "response"] : []) holding[half] = contains(find, await halfOf(id, half));
  const exchange = report.exchanges[at];
  const made = (half) => fold([half, " ", h("span.faint", null, bytes(half === "request" ? exchange.sent : exchange.received))],
    (inside) => halfInto(inside, id, half, find), { open: holding[half], data: { half } });
  return h("section.part", { data: { exchange: exchange.id } },
    h("h4", null, exchange.id, exchange.attempt > 1 && " · attempt " + exchange.attempt, " ", stateChip(exchange), errorLine(exchange)),
    made("request"), made("response"));
}

function stateChip(exchange) {
  const ending = exchange.ending && exchange.ending !== "complete" ? words(exchange.ending) : null;
  const text = [exchange.status, ending].filter(Boolean).join(" · ");
  if (!text && isOpen(exchange)) return chip("no end seen", "warn");
  return text && chip(text, hasFailed(exchange) ? "bad" : "");
}

const errorLine = (exchange) => exchange.error && h("span.ink-bad", null, exchange.error);

function timesLine(exchange) {
  if (exchange.at === null) return null;
  const parts = ["at " + clock(exchange.at, 1e3)];
  if (exchange.first !== null) parts.push("waited " + duration(exchange.first - exchange.at));
  if (exchange.first !== null) parts.push("streamed " + duration(endOf(exchange) - exchange.first));
  if (isOpen(exchange)) parts.push((exchange.first === null ? "no byte received in " + duration(endOf(exchange) - exchange.at) + ", " : "") + "no end seen");
  return parts.join(" · ") + wallClock(exchange.at);
}

function missLine(at) {
  const miss = cacheOfExchange.get(at);
  if (!miss?.missed) return null;
  return [many(miss.missed, "token"), " missed", miss.reason && ": " + words(miss.reason), miss.pointer && [" at ", h("code", null, miss.pointer)],
    " ", link({ view: "cache", at: report.exchanges[at].id }, "why")];
}

function differencesOf(turn) {
  const lane = report.lanes[turn.lane].id;
  const pair = report.verdict?.lanes.find((it) => it.candidate === lane);
  const here = report.turns.indexOf(turn);
  const found = (report.verdict?.differences ?? []).flatMap((it, at) =>
    (it.lane === (pair?.golden ?? lane) && turnOfDifference(it) === here ? [at] : []));
  if (!found.length) return null;
  return [h("span", null, many(found.length, "difference"), " from the golden: "), found.slice(0, 6).map((at) =>
    [link({ difference: at + 1 }, h("code", null, oneLine(report.verdict.differences[at].pointer || report.verdict.differences[at].what, 60))), " "]),
  found.length > 6 && "…"];
}

function turnHead(at) {
  const turn = report.turns[at];
  const exchange = report.exchanges[lastExchange(turn)];
  const of = turnsOfLane[turn.lane];
  const place = of.indexOf(at);
  const step = (to, label, title) => (to === undefined
    ? h("span.step.off", { "aria-hidden": "true" }, label)
    : h("a.step", { href: address({ turn: turnKey(report.turns[to]) }), "aria-label": title, title }, label));
  return h("header.turn-head", null,
    h("h2", { tabindex: "-1" }, laneLink(turn.lane), " · turn " + turn.turn, turn.marks.map((mark) => [" ", chip(words(mark), "warn")])),
    h("span.steps", null, step(of[place - 1], "‹", "turn before"), step(of[place + 1], "›", "next turn"),
      report.exchanges.length > 0 && link({ view: "timeline", at: turnKey(turn) }, "in the timeline")),
    definitions([["request", [exchange.id, " · ", exchange.model ?? report.lanes[turn.lane].model ?? "no model named", " ", stateChip(exchange)]],
      ["error", errorLine(exchange)], ["time", timesLine(exchange)], ["tokens", turn.usage && usageLine(turn.usage, turn.usd)],
      ["cache", missLine(lastExchange(turn))], ["golden", differencesOf(turn)]]));
}

function goldenBlock(exchange) {
  const of = report.golden?.of ?? {};
  return Object.hasOwn(of, exchange) ? "g" + of[exchange] : null;
}

// Returns the sections of a turn: {id, title, note, open, fill, value}.
function sectionsOf(at, own, find, route) {
  const turn = report.turns[at];
  const last = lastExchange(turn);
  const before = turnBefore(turn);
  const golden = goldenBlock(last);
  const of = own?.turn ?? null;
  const list = [];
  if (of) {
    list.push({ id: "in", title: "Input", note: many(of.results.length, "result") + ", " + many(of.injected.length, "text"), open: true,
      fill: (inside) => inside.append(...inputParts(of, find)), value: () => [of.results, of.injected] });
    list.push({ id: "reply", title: "Reply", note: many(of.calls.length, "call"), open: true,
      fill: (inside) => inside.append(...reply(of, turn, find)), value: () => [of.thinking, of.text, of.calls] });
    if (of.system) list.push({ id: "system", title: "System prompt", fill: (inside) => systemInto(inside, of.system, find), value: () => block(of.system) });
    if (of.tools) list.push({ id: "tools", title: "Tools", fill: (inside) => toolsInto(inside, of.tools, find), value: () => block(of.tools) });
  }
  list.push({ id: "raw", title: "Raw bytes", note: many(turn.exchanges.length, "exchange"), open: !of,
    fill: async (inside) => inside.append(...(await Promise.all(turn.exchanges.map((exchange) => rawFolds(exchange, find))))),
    value: () => Promise.all(turn.exchanges.flatMap((it) => [halfOf("x" + it, "request"), halfOf("x" + it, "response")])) });
  if (before !== null) {
    const ids = ["x" + lastExchange(report.turns[before]), "x" + last];
    list.push({ id: "before", title: "Compared with turn " + report.turns[before].turn, open: route.compare === "before",
      fill: (inside) => compareInto(inside, ids, ["before", "now"], route.at) });
  }
  if (golden) {
    list.push({ id: "golden", title: "Compared with the golden", note: report.golden.title, open: route.compare === "golden",
      fill: (inside) => compareInto(inside, [golden, "x" + last], ["golden", "candidate"], route.at) });
  }
  return list;
}

// Returns the first section that contains the searched text.
async function firstMatchingSection(sections, find) {
  for (const it of sections) {
    if (!it.value) continue;
    if (contains(find, await it.value())) return it.id;
    await breathe();
  }
  return null;
}

async function turnInto(inside, at, route, stillWanted) {
  const turn = report.turns[at];
  const find = route.find ? needle(route.find) : null;
  const page = h("article", { data: { page: "turn", turn: turnKey(turn) } }, turnHead(at), h("p.faint.wait", { role: "status" }, "loading …"));
  inside.replaceChildren(page);
  const own = await block("x" + lastExchange(turn));
  if (!stillWanted()) return;
  const sections = sectionsOf(at, own, find, route);
  const found = find ? await firstMatchingSection(sections, find) : null;
  if (!stillWanted()) return;
  page.lastElementChild.remove();
  const wanted = found ?? route.show ?? route.compare;
  for (const it of sections) {
    page.append(fold([h("h3", null, it.title), it.note && h("span.faint", null, it.note)], it.fill,
      { name: "details.section", open: it.open || it.id === wanted, data: { section: it.id } }));
  }
  await whenIdle();
  if (!stillWanted()) return;
  const goal = find ? page.querySelector("mark") : wanted && !route.at ? page.querySelector("[data-section=\"" + CSS.escape(wanted) + "\"]") : null;
  if (goal) await scrollToElement(goal, find ? "center" : "start", stillWanted);
}

// An exchange without a turn has only raw bytes.
async function exchangeInto(inside, at, find = null) {
  const exchange = report.exchanges[at];
  inside.replaceChildren(h("article", { data: { page: "exchange", exchange: exchange.id } },
    h("h2", { tabindex: "-1" }, exchange.id), definitions([["model", exchange.model], ["error", errorLine(exchange)], ["time", timesLine(exchange)]]), await rawFolds(at, find)));
}
