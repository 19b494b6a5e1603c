// Draws the timeline. Only the visible part is drawn; it can be zoomed and moved.

// With more visible arrows than this, they are drawn behind the bars.
const MANY_ARROWS = 60;

const LEGEND = [["wait", "waiting for the first byte"], ["stream", "streaming"], ["failed", "failed"], ["wait open", "no end seen"], ["tool", "tool"],
  ["tool vague", "tool, estimated times"], ["spawn", "starts"], ["wake", "wakes"], ["result", "result"],
  ["gap killed", "killed, then resumed"], ["gap paused", "paused, then resumed"]];

function pattern(id, name) {
  return s("pattern", { id, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect." + name + "-ground", { width: 5, height: 5 }), s("rect." + name + "-line", { width: 2, height: 5 }));
}

function arrowHead(kind) {
  return s("marker.head." + kind, { id: "head-" + kind, viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto" },
    s("path", { d: "M0,0L6,3L0,6z" }));
}

function chartDefs() {
  return s("defs", null, pattern("hatch-tool", "vague"), pattern("hatch-failed", "failed"), ["spawn", "wake", "result"].map(arrowHead));
}

function legendSample(kind) {
  const box = s("svg.sample", { width: 22, height: 12, "aria-hidden": "true" });
  const name = kind.split(" ").join(".");
  if (["spawn", "wake", "result"].includes(kind)) {
    box.append(s("path.arrow." + name, { d: "M2,6H19", "marker-end": "url(#head-" + kind + ")" }));
  } else {
    const thin = kind.startsWith("tool");
    box.append(s("rect." + name, { x: 1, y: thin ? 4 : 1, width: 20, height: thin ? 5 : 10, rx: 1 }));
  }
  return box;
}

class Chart {
  constructor(model, onOpen) {
    Object.assign(this, { model, onOpen, from: model.start, to: model.end, cursor: null, width: 600 });
    this.steps = model.timed ? concurrency(model.spans) : [];
    this.peak = this.steps.reduce((most, [, now]) => Math.max(most, now), 1);
    const room = (model.end - model.start) * 0.01;
    this.whole = [model.start - room, model.end + room];
    [this.from, this.to] = this.whole;
    this.tip = h("div.tip", { role: "tooltip", hidden: true });
    this.overview = s("svg.overview", { height: 38, "aria-hidden": "true" });
    this.axis = s("svg.axis", { height: 22, "aria-hidden": "true" });
    this.names = h("div.names");
    this.plot = s("svg.plot", { role: "img", "aria-label": this.summary() });
    this.frame = h("div.frame", { tabindex: "0", role: "group", "aria-label": "timeline; + and - zoom, arrow keys move" },
      h("div.corner", null, this.model.timed && "in flight, up to " + this.peak, longestNames(model.rows)), h("div.top", null, this.overview, this.axis), this.names, this.plot);
    this.names.style.height = model.height + "px";
    this.plot.setAttribute("height", model.height);
    this.element = h("div.chart", null, this.toolbar(), this.frame, this.tip);
    this.listen();
  }

  summary() {
    const what = many(report.exchanges.length, "request") + " in " + many(report.lanes.length, "lane");
    if (!this.model.timed) return what;
    const open = this.model.open ? ", " + count(this.model.open) + " without an end" : "";
    return what + " over " + duration(this.model.end - this.model.start) + ", up to " + this.peak + " at once" + open;
  }

  toolbar() {
    const tool = (label, name, act) => button(label, act, { "aria-label": name, title: name });
    return h("div.bar", null,
      h("span.group", null, tool("−", "zoom out", () => this.zoom(1.6)), tool("+", "zoom in", () => this.zoom(1 / 1.6)),
        tool("fit", "show everything", () => this.show(...this.whole)), tool("◂", "earlier", () => this.pan(-0.3)), tool("▸", "later", () => this.pan(0.3))),
      h("span.says", null, this.summary()),
      h("span.legend", null, chartDefsHolder(), LEGEND.filter(([kind]) => this.has(kind))
        .map(([kind, text]) => h("span", null, legendSample(kind), " ", kind === "stream" && !this.model.timed ? "request" : text))));
  }

  has(kind) {
    if (["spawn", "wake", "result"].includes(kind)) return this.model.arrows.some((it) => it.kind === kind);
    if (kind.startsWith("gap ")) return report.resumptions.some((it) => kind.endsWith(it.word));
    if (kind === "failed") return report.exchanges.some(hasFailed);
    if (kind === "wait open") return this.model.open > 0;
    if (kind === "tool") return this.model.timed && report.tools.some((it) => it.exact);
    if (kind === "tool vague") return this.model.timed && report.tools.some((it) => !it.exact);
    return kind === "stream" || this.model.timed;
  }

  listen() {
    const scheduleDraw = () => this.scheduleDraw();
    this.frame.addEventListener("scroll", scheduleDraw, { passive: true });
    new ResizeObserver(scheduleDraw).observe(this.frame);
    this.frame.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    this.plot.addEventListener("pointerdown", (event) => this.onDown(event));
    this.plot.addEventListener("pointermove", (event) => this.onHover(event));
    this.plot.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.plot.addEventListener("click", (event) => this.onClick(event));
    this.overview.addEventListener("pointerdown", (event) => this.onOverview(event));
    this.overview.addEventListener("pointermove", (event) => event.buttons && this.onOverview(event));
    this.frame.addEventListener("keydown", (event) => this.onKey(event));
  }

  // Reading sizes forces a layout, so this runs once per drawing.
  measure() {
    this.width = Math.max(60, this.frame.clientWidth - this.names.offsetWidth);
    this.sight = { top: this.frame.scrollTop - 40, bottom: this.frame.scrollTop + this.frame.clientHeight };
  }

  x(at) {
    return ((at - this.from) / (this.to - this.from)) * this.width;
  }

  scheduleDraw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      if (this.frame.isConnected && this.frame.clientWidth) this.draw();
    });
  }

  show(from, to) {
    const [first, last] = this.whole;
    const least = this.model.timed ? 200 : 2;
    const span = Math.min(Math.max(to - from, least), last - first);
    this.from = Math.min(Math.max(from, first), last - span);
    this.to = this.from + span;
    this.scheduleDraw();
  }

  zoom(by, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) * by, at + (this.to - at) * by);
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }

  timeAt(event) {
    const box = this.plot.getBoundingClientRect();
    return this.from + ((event.clientX - box.left) / this.width) * (this.to - this.from);
  }

  onWheel(event) {
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 150), this.timeAt(event));
    else if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) this.pan(sideways / this.width);
    else return;
    event.preventDefault();
  }

  onDown(event) {
    if (event.button !== 0) return;
    this.moved = false;
    const [x, from, to] = [event.clientX, this.from, this.to];
    const move = (next) => {
      const by = next.clientX - x;
      if (!this.moved && Math.abs(by) < 4) return;
      this.moved = true;
      this.tip.hidden = true;
      const time = (by / this.width) * (to - from);
      this.show(from - time, to - time);
    };
    const up = () => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", up);
      window.removeEventListener("pointercancel", up);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", up);
    window.addEventListener("pointercancel", up);
  }

  onClick(event) {
    const hit = event.target.closest("[data-exchange],[data-turn]");
    if (hit && !this.moved) this.onOpen(hit.dataset);
  }

  onOverview(event) {
    const box = this.overview.getBoundingClientRect();
    const [first, last] = this.whole;
    const at = first + ((event.clientX - box.left) / box.width) * (last - first);
    const half = (this.to - this.from) / 2;
    this.show(at - half, at + half);
  }

  onKey(event) {
    const by = { ArrowLeft: -0.15, ArrowRight: 0.15 }[event.key];
    if (by === undefined) return;
    this.pan(by);
    event.preventDefault();
  }

  // Scrolls to a turn and marks it.
  showTurn(turn) {
    this.cursor = turn;
    const span = this.model.spans[turn === null ? -1 : lastExchange(report.turns[turn])];
    const row = this.model.rows[report.turns[turn]?.lane];
    if (span && (span.at < this.from || span.end > this.to)) {
      const half = (this.to - this.from) / 2;
      this.show(span.at - half, span.at + half);
    }
    if (row) {
      const top = row.y + 60;
      if (top < this.frame.scrollTop + 60) this.frame.scrollTop = row.y;
      else if (top + row.height > this.frame.scrollTop + this.frame.clientHeight) this.frame.scrollTop = top + row.height - this.frame.clientHeight + 20;
    }
    this.scheduleDraw();
  }

  onHover(event) {
    const hit = event.target.closest("[data-tip]");
    this.tip.hidden = !hit || this.moved && event.buttons;
    if (this.tip.hidden) return;
    this.tip.replaceChildren(...tipOf(hit.dataset.tip, this.model));
    const { innerWidth, innerHeight } = window;
    const { offsetWidth, offsetHeight } = this.tip;
    const left = Math.max(4, Math.min(event.clientX + 14, innerWidth - offsetWidth - 8));
    const below = event.clientY + 18 + offsetHeight < innerHeight;
    this.tip.style.left = left + "px";
    this.tip.style.top = (below ? event.clientY + 18 : event.clientY - offsetHeight - 10) + "px";
  }

  draw() {
    this.measure();
    const { width, sight: { top, bottom } } = this;
    for (const part of [this.plot, this.axis, this.overview]) part.setAttribute("width", width);
    const rows = this.model.rows.filter((row) => row.y + row.height > top && row.y < bottom);
    this.drawAxis(width);
    drawOverview(this, width);
    this.names.replaceChildren(...rows.map(rowName));
    this.plot.replaceChildren(...this.gridLines(), ...this.withArrows(rows.map((row) => this.drawRow(row, width)), this.drawArrows(top, bottom, width)));
  }

  drawAxis(width) {
    const { ticks, step } = ticksOf(this.from, this.to, width, this.model.timed);
    this.ticks = ticks;
    this.axis.replaceChildren(...ticks.map((at) => s("text", { x: Math.round(this.x(at)) + 3, y: 15 },
      this.model.timed ? clock(at, step) : "#" + (at + 1))));
  }

  gridLines() {
    return this.ticks.map((at) => s("line.grid", { x1: Math.round(this.x(at)) + 0.5, x2: Math.round(this.x(at)) + 0.5, y1: 0, y2: this.model.height }));
  }

  drawRow(row, width) {
    const group = s("g", { transform: "translate(0," + row.y + ")", data: row.lane === null ? null : { lane: report.lanes[row.lane].id } });
    group.append(s("line.rule", { x1: 0, x2: width, y1: row.height - 0.5, y2: row.height - 0.5 }));
    for (const { tool, track } of row.tools) group.append(...this.drawTool(tool, track, width));
    for (const bar of row.bars) group.append(...this.drawBar(bar, width));
    for (const mark of row.marks) group.append(...this.drawMark(mark, row.height, width));
    return group;
  }

  // Returns null for a box outside the visible part.
  box(at, end, width) {
    const left = Math.max(-4, this.x(at));
    const right = Math.min(width + 4, Math.max(this.x(end), left + 2));
    return right < 0 || left > width ? null : { left, wide: right - left };
  }

  drawTool(tool, track, width) {
    const box = this.box(tool.at, tool.end ?? this.whole[1], width);
    if (!box) return [];
    const name = "rect.tool" + (tool.exact ? "" : ".vague") + (tool.error ? ".error" : "");
    return [s(name, { x: box.left, y: 4 + BAR + 3 + track * TRACK, width: box.wide, height: TRACK - 2, rx: 1,
      data: { tip: "tool:" + tool.index, tool: tool.name, turn: turnKey(report.turns[tool.turn]) } })];
  }

  // The time in which a lane did nothing, because its process was killed or it was paused, with a line where it went on.
  drawMark(mark, height, width) {
    const box = this.box(mark.stopped, mark.resumed, width);
    if (!box) return [];
    const data = { tip: "mark:" + mark.index, mark: mark.word };
    const end = Math.round(box.left + box.wide) + 0.5;
    return [s("rect.gap." + mark.word, { x: box.left, y: 1, width: box.wide, height: height - 2, data }),
      s("line.resumed", { x1: end, x2: end, y1: 1, y2: height - 1, data })];
  }

  drawBar(bar, width) {
    const exchange = report.exchanges[bar.exchange];
    // An open request extends to the edge of the drawing.
    const end = bar.open ? this.whole[1] : bar.end;
    const box = this.box(bar.at, end, width);
    if (!box) return [];
    const failed = hasFailed(exchange);
    const first = Math.min(bar.first ?? end, end);
    const group = s("g.request" + (failed ? ".failed" : "") + (bar.open ? ".open" : "") + (exchange.turn !== null && exchange.turn === this.cursor ? ".cursor" : ""),
      { data: { tip: "exchange:" + bar.exchange, exchange: exchange.id } });
    if (exchange.turn !== null) group.dataset.turn = turnKey(report.turns[exchange.turn]);
    if (first > bar.at || bar.first === null) {
      const wait = this.box(bar.at, first, width);
      if (wait) group.append(s("rect.wait", { x: wait.left, y: 4, width: wait.wide, height: BAR, rx: 1 }));
    }
    const stream = first < end ? this.box(first, end, width) : null;
    if (stream) group.append(s("rect.stream", { x: stream.left, y: 4, width: stream.wide, height: BAR, rx: 1 }));
    if (failed) group.append(s("path.cross", { d: "M" + (box.left - 1) + ",3l5,5m0,-5l-5,5" }));
    if (group.classList.contains("cursor")) group.append(s("rect.ring", { x: box.left - 2.5, y: 1.5, width: box.wide + 5, height: BAR + 5, rx: 3 }));
    return [group];
  }

  withArrows(rows, arrows) {
    if (arrows.childElementCount <= MANY_ARROWS) return [...rows, arrows];
    arrows.classList.add("faded");
    return [arrows, ...rows];
  }

  // Arrows with both ends outside the visible part are left out.
  drawArrows(top, bottom, width) {
    const group = s("g.arrows");
    for (const [at, arrow] of this.model.arrows.entries()) {
      const [a, b] = [this.model.rows[arrow.from.lane], this.model.rows[arrow.to.lane]];
      const [x1, x2] = [this.x(arrow.from.at), this.x(arrow.to.at)];
      const inSight = (row) => row.y + row.height > top && row.y < bottom;
      if (!(inSight(a) || inSight(b)) || Math.max(x1, x2) < 0 || Math.min(x1, x2) > width) continue;
      const down = b.y > a.y;
      const [y1, y2] = [a.y + 4 + (down ? BAR : 0), b.y + 4 + (down ? 0 : BAR)];
      const bend = Math.max(8, Math.min(24, Math.abs(y2 - y1) / 2)) * (down ? 1 : -1);
      const d = "M" + x1 + "," + y1 + "C" + x1 + "," + (y2 - bend * 0.2) + " " + x2 + "," + (y1 + bend * 0.2) + " " + x2 + "," + y2;
      group.append(s("path.arrow." + arrow.kind, { d, "marker-end": "url(#head-" + arrow.kind + ")",
        data: { tip: "arrow:" + at, arrow: arrow.kind } }));
    }
    return group;
  }
}

// The SVG definitions that the drawing and its legend share.
function chartDefsHolder() {
  return s("svg.away", { width: 0, height: 0, "aria-hidden": "true" }, chartDefs());
}

function rowName(row) {
  const lane = row.lane === null ? null : report.lanes[row.lane];
  const made = lane
    ? h("a", { href: address({ lane: lane.id }), title: [lane.id, aboutLane(lane), lane.model].filter(Boolean).join(" · "), data: { lane: lane.id } },
      h("span.kind." + lane.kind, { "aria-hidden": "true" }), h("b", null, ownName(lane.id)), h("span.faint", null, aboutLane(lane)))
    : h("span.stray", { title: "requests without a lane" }, h("b", null, "no lane"));
  Object.assign(made.style, { top: row.y + "px", height: row.height + "px", paddingLeft: 8 + Math.min(lane?.depth ?? 0, 8) * 12 + "px" });
  return made;
}

const aboutLane = (lane) => [lane.agent, lane.kind === "main" ? null : lane.kind, lane.background ? "background" : null].filter(Boolean).join(" · ");

// Names are drawn when they become visible; the column has the width of the longest of them.
function longestNames(rows) {
  const long = ({ lane }) => (lane === null ? 0 : ownName(report.lanes[lane].id).length + aboutLane(report.lanes[lane]).length + 2 * Math.min(report.lanes[lane].depth, 8));
  return h("div.names.longest", { "aria-hidden": "true", inert: true }, [...rows].sort((a, b) => long(b) - long(a)).slice(0, 4).map(rowName));
}

function drawOverview(chart, width) {
  const [first, last] = chart.whole;
  const x = (at) => ((at - first) / (last - first)) * width;
  const y = (now) => 36 - (now / chart.peak) * 32;
  let [d, height] = ["M0,36", 36];
  for (const [at, now] of chart.steps) {
    d += "L" + x(at).toFixed(1) + "," + height.toFixed(1) + "V" + y(now).toFixed(1);
    height = y(now);
  }
  const parts = [s("path.flight", { d: d + "L" + width + "," + height.toFixed(1) + "V36Z" })];
  if (chart.from > first || chart.to < last) {
    parts.push(s("rect.window", { x: x(chart.from), y: 0.5, width: Math.max(2, x(chart.to) - x(chart.from)), height: 37 }));
  }
  chart.overview.replaceChildren(...parts);
}

function tipOf(what, model) {
  const [kind, at] = [what.slice(0, what.indexOf(":")), Number(what.slice(what.indexOf(":") + 1))];
  if (kind === "tool") return tipOfTool(report.tools[at]);
  if (kind === "mark") return tipOfMark(report.resumptions[at]);
  if (kind === "arrow") return tipOfArrow(model.arrows[at], model);
  return tipOfExchange(report.exchanges[at], model.spans[at], model);
}

function tipOfTool(tool) {
  return [h("b", null, tool.name), h("div", null, tool.end === null ? "no end seen" : duration(tool.end - tool.at), tool.error && " · error"),
    h("div.faint", null, tool.exact ? "measured" : "estimated from the traffic"),
    h("div.faint", null, turnKey(report.turns[tool.turn]).replace(":", " · "), " · at " + clock(tool.at, 1e3))];
}

function tipOfMark(mark) {
  return [h("b", null, report.lanes[mark.lane].id + " " + mark.word + " and resumed"),
    h("div", null, "last step at " + clock(mark.stopped, 1e3) + ", resumed at " + clock(mark.resumed, 1e3) + wallClock(mark.resumed))];
}

function tipOfArrow(arrow, model) {
  const says = { spawn: " starts ", wake: " wakes ", result: " returns its result to " };
  return [h("b", null, report.lanes[arrow.from.lane].id + (says[arrow.kind] ?? " → ") + report.lanes[arrow.to.lane].id),
    model.timed && h("div.faint", null, "at " + clock(arrow.to.at, 1e3))].filter(Boolean);
}

function tipOfExchange(exchange, span, model) {
  const turn = report.turns[exchange.turn];
  const lines = [h("b", null, turn ? turnKey(turn).replace(/:(\d+)$/, " · $1") : exchange.id, exchange.attempt > 1 && " · attempt " + exchange.attempt)];
  if (turn?.calls.length) lines.push(h("div", null, oneLine(turn.calls.join(", "), 120)));
  if (turn?.said) lines.push(h("div", null, oneLine(turn.said, 120)));
  const state = [exchange.status, exchange.ending && exchange.ending !== "complete" ? words(exchange.ending) : null].filter(Boolean).join(" · ");
  if (state) lines.push(h("div", { class: hasFailed(exchange) ? "ink-bad" : "faint" }, state));
  if (exchange.error) lines.push(h("div.ink-bad", null, oneLine(exchange.error, 200)));
  if (model.timed) {
    const unknown = exchange.status === null ? "no byte received" + (span.open ? " in " + duration(span.end - span.at) : "") : "time of the first byte unknown";
    lines.push(h("div", null, span.first === null ? unknown : "waited " + duration(span.first - span.at) + " · streamed " + duration(span.end - span.first)));
    if (span.open) lines.push(h("div.ink-warn", null, "no end seen"));
    lines.push(h("div.faint", null, "at " + clock(span.at, 1e3) + wallClock(span.at)));
  }
  return [...lines, h("div.faint", null, exchange.id + " · sent " + bytes(exchange.sent) + " · received " + bytes(exchange.received))];
}

function wallClock(us) {
  const began = Date.parse(report.began ?? "");
  return Number.isNaN(began) ? "" : " · " + new Date(began + us / 1e3).toISOString().slice(11, 23) + " UTC";
}
