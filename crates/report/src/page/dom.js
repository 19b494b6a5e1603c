// Creates elements from names and texts. Foreign text is only ever inserted as text.

function setUp(made, props) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name === "style") Object.assign(made.style, value);
    else made.setAttribute(name, value === true ? "" : visible(value));
  }
}

function fill(made, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (Array.isArray(child)) fill(made, child);
    else made.append(child instanceof Node ? child : visible(child));
  }
}

// h("p.faint", {title: "…"}, "text", element, [more])
function h(name, props, ...children) {
  const [tag, ...classes] = name.split(".");
  const made = document.createElement(tag);
  if (classes.length) made.className = classes.join(" ");
  setUp(made, props);
  fill(made, children);
  return made;
}

function s(name, props, ...children) {
  const [tag, ...classes] = name.split(".");
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  if (classes.length) made.setAttribute("class", classes.join(" "));
  setUp(made, props);
  fill(made, children);
  return made;
}

function button(label, onclick, props) {
  return h("button", { type: "button", onclick, ...props }, label);
}

// Returns a link inside the page: {turn: "main:3", compare: "golden"}.
function address(places) {
  const part = (text) => encodeURIComponent(text).replace(/%3A/g, ":").replace(/%2F/g, "/");
  return "#" + Object.entries(places).filter(([, to]) => to !== null && to !== undefined)
    .map(([name, to]) => name + "=" + part(to)).join("&");
}

function link(places, ...children) {
  return h("a", { href: address(places) }, ...children);
}

function turnLink(at, extra, ...children) {
  const key = turnKey(report.turns[at]);
  return link({ turn: key, ...extra }, ...(children.length ? children : [key.replace(/:(\d+)$/, " · $1")]));
}

function laneLink(at, ...children) {
  return link({ lane: report.lanes[at].id }, ...(children.length ? children : [ownName(report.lanes[at].id)]));
}

function chip(text, kind = "") {
  return h("span.chip" + (kind && "." + kind), null, text);
}

function definitions(pairs) {
  return h("dl.two", null, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

// Columns: {head, n: is a number, cell(row)}.
function table(columns, rows, rowProps) {
  const head = columns.map((it) => h(it.n ? "th.n" : "th", { scope: "col", title: it.title }, it.head));
  const line = (row) => h("tr", rowProps?.(row), columns.map((it) => {
    const cell = it.cell(row);
    return cell instanceof HTMLTableCellElement ? cell : h(it.n ? "td.n" : it.long ? "td.long" : "td", null, cell);
  }));
  return h("div.wide", { tabindex: "0", role: "region", "aria-label": "table" },
    h("table", null, h("thead", null, h("tr", null, head)), h("tbody", null, rows.map(line))));
}

// Creates a fold that is filled when it is opened for the first time.
function fold(title, fillIn, { open = false, name = "details", data } = {}) {
  const made = h(name, { data }, h("summary", null, title));
  let filled = false;
  const onOpen = () => {
    if (filled || !made.open) return;
    filled = true;
    const inside = h("div.inside");
    made.append(inside);
    busy(fillIn(inside));
  };
  made.addEventListener("toggle", onOpen);
  made.open = open;
  // The toggle event is asynchronous, but callers may need the content at once.
  onOpen();
  return made;
}

// Appends the first items at once and the rest in slices. `complete` resolves when all are there.
function appendSlowly(inside, items, make, atOnce = 120) {
  inside.append(...items.slice(0, atOnce).map(make));
  const rest = async () => {
    for (const [at, item] of items.slice(atOnce).entries()) {
      if (at % 10 === 0) await breathe();
      inside.append(make(item, at + atOnce));
    }
  };
  inside.complete = busy(rest());
  return inside;
}

// Pending work, which `offshootReport.idle()` awaits.
const pendingWork = new Set();
function busy(work) {
  if (!(work instanceof Promise)) return work;
  pendingWork.add(work);
  const done = () => pendingWork.delete(work);
  work.then(done, (error) => {
    done();
    console.error(error);
  });
  return work;
}

async function whenIdle() {
  while (pendingWork.size) await Promise.allSettled([...pendingWork]);
}

// Resolves after the next frame has been drawn.
const nextFrame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));

// Scrolls to an element. Heights of elements outside the viewport are estimates, so the position is corrected
// until it is stable.
async function scrollToElement(goal, block, stillWanted = () => true) {
  for (let tries = 0, still = 0; tries < 30 && still < 2 && stillWanted(); tries++) {
    goal.scrollIntoView({ block });
    const { top } = goal.getBoundingClientRect();
    await nextFrame();
    still = Math.abs(goal.getBoundingClientRect().top - top) < 1 ? still + 1 : 0;
  }
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A page from a file may not be permitted to use the clipboard.
    const box = h("textarea.away", { "aria-hidden": "true" });
    box.value = text;
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
}

function copyButton(text, label = "copy") {
  const made = button(label, async () => {
    await copyText(text);
    made.textContent = "copied";
    announce("copied");
    setTimeout(() => (made.textContent = label), 1500);
  }, { data: { copy: "" } });
  return made;
}

const liveRegion = h("div.away", { role: "status", "aria-live": "polite" });
function announce(text) {
  liveRegion.textContent = visible(text);
}
