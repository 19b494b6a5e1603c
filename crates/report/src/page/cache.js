// The prompt cache view: tokens read, written and missed, by request and by lane.

const CACHE_PARTS = [["read", "read"], ["written", "written"], ["input", "plain input"], ["missed", "missed: sent although it could have been read from the cache"]];

// Shares of the prediction, as all figures of misses are, except misses that only the usage shows. Missed
// tokens are part of the written or plain input tokens; they are subtracted from both.
function sharesOf(request) {
  const usage = request.reason === "unavailable" ? request.reported : request.predicted;
  const ofWritten = Math.min(request.missed, usage.write);
  const ofInput = Math.min(request.missed - ofWritten, usage.input);
  return { read: usage.read, written: usage.write - ofWritten, input: usage.input - ofInput, missed: ofWritten + ofInput };
}

function cacheBar(shares, most) {
  const total = Object.values(shares).reduce((a, b) => a + b, 0);
  const says = CACHE_PARTS.map(([name]) => name + " " + count(shares[name])).join(", ");
  const bar = h("span.stack", { role: "img", "aria-label": says, title: says });
  bar.style.width = (most ? (total / most) * 100 : 0) + "%";
  for (const [name] of CACHE_PARTS) {
    if (!shares[name]) continue;
    const part = h("span." + name);
    part.style.flexGrow = String(shares[name]);
    bar.append(part);
  }
  return h("span.stack-room", null, bar);
}

function missDetails(request) {
  const after = exchangeById.get(request.after);
  const from = after === undefined ? request.after : report.exchanges[after].turn === null ? request.after : turnLink(report.exchanges[after].turn);
  const exchange = report.exchanges[request.exchange];
  return [definitions([["reason", request.reason && words(request.reason)], ["place", [request.section, request.block !== null && ", block " + request.block]],
    ["pointer", request.pointer && h("code", null, request.pointer)], ["written by", from], ["cost", request.usd === null ? null : dollars(request.usd)],
    ["predicted", usageOf(request.predicted)], ["reported", request.reported && usageOf(request.reported)], ["accuracy", request.sure]]),
  request.before !== null || request.now !== null ? bothValues(request.before, request.now, ["before", "now"]) : "",
  exchange.turn === null ? "" : h("p", null, turnLink(exchange.turn, { compare: "before", at: request.pointer }, "compare with the turn before"))];
}

const usageOf = (usage) => "read " + count(usage.read) + ", written " + count(usage.write) + ", input " + count(usage.input);

function cacheRow(request, most) {
  const exchange = report.exchanges[request.exchange];
  const shares = sharesOf(request);
  const place = exchange.turn === null ? exchange.id : turnLink(exchange.turn);
  const why = request.reason ? words(request.reason) : "";
  const isContradicted = request.sure.startsWith("contradicted");
  const title = [h("span.place", null, place), cacheBar(shares, most),
    ...CACHE_PARTS.map(([name]) => h("span.n." + name + (shares[name] ? "" : ".none"), null, tokens(shares[name]))),
    h("span.why", null, request.missed ? [chip(why || "missed", "warn"), " ", request.pointer && h("code", null, request.pointer)] : h("span.faint", null, why),
      request.missed > 0 && request.usd !== null && h("span.faint", null, " " + dollars(request.usd)),
      isContradicted && [" ", chip("contradicts the usage", "warn")])];
  const made = fold(title, (inside) => inside.append(...missDetails(request)), { name: "details.request-row", data: { exchange: exchange.id } });
  if (exchange.turn !== null) made.dataset.turn = turnKey(report.turns[exchange.turn]);
  return made;
}

const sumOf = (usage) => (usage ? usage.read + usage.write + usage.input : 0);

function cacheTotals(cache) {
  const rows = [{ ...cache.total, lane: null }, ...[...cache.lanes].sort((a, b) => a.lane - b.lane)];
  const share = (usage) => (sumOf(usage) ? Math.round((usage.read / sumOf(usage)) * 100) + " %" : "–");
  const paid = (row) => (row.lane === null ? report.lanes.reduce((sum, lane) => (lane.usd === null ? sum : (sum ?? 0) + lane.usd), null) : report.lanes[row.lane].usd);
  const made = table([{ head: "lane", cell: (row) => (row.lane === null ? h("b", null, "all") : laneLink(row.lane)) },
    { head: "read", n: true, cell: (row) => count(row.predicted.read) }, { head: "of all", n: true, cell: (row) => share(row.predicted) },
    { head: "written", n: true, cell: (row) => count(row.predicted.write) }, { head: "input", n: true, cell: (row) => count(row.predicted.input) },
    { head: "missed", n: true, cell: (row) => h(row.missed ? "span.ink-warn" : "span.faint", null, count(row.missed)) },
    { head: "input $", n: true, title: "predicted cost of the input", cell: (row) => dollars(row.usd) },
    { head: "perfect $", n: true, title: "cost without any miss", cell: (row) => dollars(row.perfect_usd) },
    { head: "usage: read", n: true, cell: (row) => count(row.reported.read) }, { head: "written", n: true, cell: (row) => count(row.reported.write) },
    { head: "input", n: true, cell: (row) => count(row.reported.input) },
    { head: "cost", n: true, title: "cost of the reported usage, including output", cell: (row) => dollars(paid(row)) }],
  rows, (row) => (row.lane === null ? { class: "total" } : { data: { lane: report.lanes[row.lane].id } }));
  made.classList.add("tall");
  return made;
}

function cacheRequests(cache) {
  const most = cache.requests.reduce((most, it) => Math.max(most, sumOf(it.predicted)), 1);
  const list = h("div.requests", null, h("div.request-head", { "aria-hidden": "true" }, h("span.place", null, "turn"), h("span.stack-room", null, "tokens sent"),
    ["read", "written", "input", "missed"].map((name) => h("span.n", null, name)), h("span.why", null, "why")),
  );
  appendSlowly(list, cache.requests, (it) => cacheRow(it, most));
  const missed = cache.requests.filter((it) => it.missed).length;
  const only = button("only misses (" + count(missed) + ")", async () => {
    await list.complete;
    const on = only.getAttribute("aria-pressed") !== "true";
    only.setAttribute("aria-pressed", String(on));
    cache.requests.forEach((it, at) => (list.children[at + 1].hidden = on && !it.missed));
  }, { "aria-pressed": "false", data: { only: "misses" } });
  const legend = h("span.legend", null, CACHE_PARTS.map(([name, text]) => h("span", null, h("span.swatch." + name), " ", text)));
  return h("section", null, h("h2", null, "Requests"), h("div.bar", null, only, legend), list);
}

function cacheView(cache) {
  return [h("h2", null, "Cost"), cacheTotals(cache),
    h("p.faint", null, ["prediction: ", cache.sure, cache.prices_of && " · prices of " + cache.prices_of,
      cache.rules.length > 0 && " · rules: " + cache.rules.map((it) => it.name + (it.documented ? " (" + it.documented + ")" : "")).join(", ")]),
    cacheRequests(cache)];
}
