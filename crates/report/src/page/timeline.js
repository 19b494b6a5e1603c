// Lanes over time: waiting, streaming, tools, starts of other lanes, and wake-ups.

const BAR = 11;
const TRACK = 6;
const MAX_TRACKS = 4;

// A recording without times is drawn in its order, one step per request.
function timesOf(of) {
  if (of.exchanges.some((it) => it.at !== null)) {
    return { timed: true, spans: of.exchanges.map((it) => (it.at === null ? null : { at: it.at, first: it.first, end: endOf(it), open: isOpen(it) })) };
  }
  const rank = of.exchanges.map((it, at) => [it.turn === null ? Infinity : of.turns[it.turn].seq, it.attempt, at]);
  rank.sort((a, b) => (a[0] === b[0] ? a[1] - b[1] || a[2] - b[2] : a[0] - b[0]));
  const spans = [];
  rank.forEach(([, , at], place) => (spans[at] = { at: place, first: place, end: place + 0.8 }));
  return { timed: false, spans };
}

// Gives tools that overlap a track each.
function packTools(tools) {
  const ends = [];
  return [...tools].sort((a, b) => a.at - b.at).map((tool) => {
    let track = ends.findIndex((end) => end <= tool.at);
    if (track < 0) track = ends.length < MAX_TRACKS ? ends.length : MAX_TRACKS - 1;
    ends[track] = Math.max(ends[track] ?? 0, tool.end ?? Infinity);
    return { tool, track };
  });
}

function rowsOf(of, times) {
  const rows = of.lanes.map((lane, at) => ({ lane: at, bars: [], tools: [], marks: [] }));
  const stray = { lane: null, bars: [], tools: [], marks: [] };
  of.exchanges.forEach((exchange, at) => {
    if (times.spans[at]) (rows[exchange.lane] ?? stray).bars.push({ exchange: at, ...times.spans[at] });
  });
  if (times.timed) of.tools.forEach((tool, at) => rows[tool.lane].tools.push({ ...tool, index: at }));
  if (times.timed) of.resumptions.forEach((mark, index) => rows[mark.lane].marks.push({ ...mark, index }));
  if (stray.bars.length) rows.push(stray);
  let y = 0;
  for (const row of rows) {
    row.tools = packTools(row.tools);
    const tracks = row.tools.reduce((most, it) => Math.max(most, it.track + 1), 0);
    row.height = Math.max(26, 4 + BAR + 3 + tracks * TRACK + 3);
    row.y = y;
    y += row.height;
  }
  return rows;
}

// Without times, arrows follow the turns that started lanes.
function arrowsOf(of, times) {
  if (times.timed) return of.arrows;
  const arrows = [];
  of.lanes.forEach((lane, to) => {
    const from = of.turns[lane.spawned?.turn];
    const first = turnsOfLane[to][0];
    if (!from || first === undefined) return;
    const at = times.spans[lastExchange(from)].end;
    arrows.push({ kind: "spawn", from: { lane: from.lane, at }, to: { lane: to, at: times.spans[of.turns[first].exchanges[0]].at }, turn: lane.spawned.turn });
  });
  return arrows;
}

function timelineModel(of) {
  const times = timesOf(of);
  const rows = rowsOf(of, times);
  const points = times.spans.filter(Boolean).flatMap((it) => [it.at, it.end]);
  if (times.timed) of.tools.forEach((tool) => points.push(tool.at, endOf(tool)));
  if (times.timed) of.resumptions.forEach((mark) => points.push(mark.stopped, mark.resumed));
  const start = points.reduce((a, b) => Math.min(a, b), points.length ? points[0] : 0);
  const end = Math.max(points.reduce((a, b) => Math.max(a, b), start), start + (times.timed ? 1000 : 1));
  const last = rows[rows.length - 1];
  return { timed: times.timed, spans: times.spans, open: times.spans.filter((it) => it?.open).length, rows, arrows: arrowsOf(of, times), start, end,
    without: times.spans.filter((it) => !it).length, height: last ? last.y + last.height : 0 };
}

// Returns the number of requests in flight, [[time, number]…], at each change. Open requests stay in flight.
function concurrency(spans) {
  const steps = [];
  for (const span of spans) {
    if (span?.open) steps.push([span.at, 1]);
    else if (span && span.end > span.at) steps.push([span.at, 1], [span.end, -1]);
  }
  steps.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let now = 0;
  return steps.map(([at, by]) => [at, (now += by)]);
}

function ticksOf(from, to, room, timed) {
  const least = ((to - from) / Math.max(1, room / 90));
  const steps = timed
    ? [1, 2, 5, 10, 20, 50, 100, 200, 500].flatMap((n) => [n, n * 1e3]).concat([1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400].map((n) => n * 1e6)).sort((a, b) => a - b)
    : [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];
  const step = steps.find((it) => it >= least) ?? steps[steps.length - 1] * Math.ceil(least / steps[steps.length - 1]);
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push(at);
  return { ticks, step };
}
