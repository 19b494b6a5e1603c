// The page: header, views, routes and keyboard.
//
// Routes: #view=timeline|lanes|cache|verdict, #turn=main:3 (with &show=in|reply|system|tools|raw,
// &compare=before|golden, &at=POINTER, &find=TEXT), #lane=sub-1, #exchange=r000004, #difference=12,
// #search=TEXT, #view=timeline&at=main:3, #view=cache&at=r000004.
//
// For tests: `window.offshootReport` = {ready: resolves when the blocks are loaded, idle(): resolves when no
// work is pending, report: the index}. Stable attributes: data-view on <main> and on the tabs, data-page on
// the shown turn, lane or exchange, data-lane, data-turn="main:3", data-exchange="r000004", data-section,
// data-half, data-pointer and data-change on changes, data-difference="12", data-surface, data-tool,
// data-arrow, data-result, data-injected, data-call, data-find on finds, data-searched on the line with the
// search progress, data-more, data-indent, data-copy, data-only="misses", data-theme on <html> and on its
// button.

const VIEWS = [
  { id: "timeline", title: "Timeline", is: () => report.exchanges.length > 0 },
  { id: "lanes", title: "Lanes", is: () => report.turns.length > 0 },
  { id: "cache", title: "Cache", is: () => report.cache !== null },
  { id: "verdict", title: "Verdict", is: () => report.verdict !== null },
].map((view, at) => ({ ...view, key: String(at + 1) }));

const KEYS = [["/", "search"], ["j, k", "next and previous turn (or difference)"], ["Enter, o", "open it"], ["1 … 4", "timeline, lanes, cache, verdict"],
  ["+, −  or  ], [", "zoom the timeline"], ["0", "show all of the timeline"], ["← →", "move the timeline that has the focus"], ["t", "light or dark"], ["?", "this help"], ["Esc", "close, leave the search"]];

const page = { views: new Map(), cursor: null, difference: null, chart: null, tree: null, detail: null, search: new SearchPage(), route: {}, shown: 0, routing: Promise.resolve() };

function firstView() {
  const there = VIEWS.filter((view) => view.is());
  const wanted = report.kind === "verdict" ? "verdict" : "timeline";
  return (there.find((view) => view.id === wanted) ?? there[0])?.id ?? "timeline";
}

function header() {
  const tab = (view) => h("a", { href: address({ view: view.id }), data: { view: view.id }, title: view.title + " (" + view.key + ")" }, view.title);
  page.box = h("input", { type: "search", placeholder: "Search  /", "aria-label": "search everything", autocomplete: "off", spellcheck: "false",
    oninput: () => typed(), onkeydown: (event) => event.key === "Enter" && typed(0) });
  page.theme = button("", () => nextTheme(), { data: { theme: "" } });
  return h("header.page-head", null,
    h("div.title", null, h("h1", null, report.title), report.badge && h("span.badge." + badgeClass(), null, report.badge.word)),
    h("nav.tabs", { "aria-label": "views" }, VIEWS.filter((view) => view.is()).map(tab)),
    h("div.tools", null, h("div", { role: "search" }, page.box), page.theme, button("?", () => help(), { "aria-label": "keys", title: "keys (?)" })));
}

const badgeClass = () => (["good", "bad", "warn"].includes(report.badge.class) ? report.badge.class : "warn");

function facts() {
  return report.facts?.length ? h("section.facts", { "aria-label": "about" }, definitions(report.facts)) : "";
}

// Views are created on first use and kept.
function viewOf(id) {
  if (page.views.has(id)) return page.views.get(id);
  const made = h("div.view", { data: { holds: id } });
  fill(made, MAKERS[id]());
  page.views.set(id, made);
  return made;
}

// The drawing comes first; the table below it can wait.
function laterLanes(timed) {
  const place = h("section", null, h("h2", null, timed ? "Time by lane" : "Lanes"));
  busy(blocksLoaded.then(() => place.append(lanesTable(timed))));
  return place;
}

const MAKERS = {
  timeline: () => {
    const model = timelineModel(report);
    page.chart = new Chart(model, (data) => go(data.turn ? { turn: data.turn } : { exchange: data.exchange }));
    return [facts(), !model.timed && h("p.notice", null, "This recording has no times. Requests are shown in order, one step each."),
      model.timed && model.without > 0 && h("p.notice", null, many(model.without, "request") + " without times " + (model.without === 1 ? "is" : "are") + " not drawn."),
      page.chart.element, laterLanes(model.timed)];
  },
  lanes: () => {
    page.tree = lanesTree();
    page.detail = h("div.detail", { "aria-live": "off" });
    return [h("div.split", null, page.tree, page.detail)];
  },
  cache: () => cacheView(report.cache),
  verdict: () => [report.kind === "verdict" ? facts() : "", verdictView(report.verdict)],
  search: () => [page.search.element],
};

function routeOf(hash) {
  const route = {};
  for (const part of hash.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    if (at <= 0) continue;
    try {
      Object.defineProperty(route, part.slice(0, at), { value: decodeURIComponent(part.slice(at + 1)), enumerable: true });
    } catch {
      // A route that was cut in the middle: its other parts still count.
    }
  }
  return route;
}

function viewForRoute(route) {
  const wanted = wantedView(route);
  if (route.search !== undefined) return "search";
  if (wanted === "lanes" && route.view === undefined) return report.turns.length || report.exchanges.length ? wanted : firstView();
  return VIEWS.find((view) => view.id === wanted)?.is() ? wanted : firstView();
}

function wantedView(route) {
  if (route.search !== undefined) return "search";
  if (route.turn !== undefined || route.lane !== undefined || route.exchange !== undefined) return "lanes";
  return route.difference !== undefined ? "verdict" : route.view;
}

// If the requested view has no content on this page, names it above the view that is shown instead.
function showMissingView(route, id) {
  const wanted = wantedView(route);
  const view = VIEWS.find((it) => it.id === wanted);
  showNotice(wanted !== undefined && wanted !== id && (view ? "This page has no " + view.title.toLowerCase() + "." : ["There is no ", h("code", null, wanted), " on this page."]));
}

function showNotice(...what) {
  page.notice.replaceChildren();
  fill(page.notice, what);
  page.notice.hidden = !page.notice.hasChildNodes();
}

function go(places, replace = false) {
  const hash = address(places);
  if (hash === location.hash) return onRoute();
  if (!replace) return void (location.hash = hash);
  history.replaceState(null, "", hash);
  onRoute();
}

function onRoute() {
  const route = (page.route = routeOf(location.hash));
  const id = viewForRoute(route);
  const shown = ++page.shown;
  const main = page.main;
  const view = viewOf(id);
  const before = main.querySelector(":scope > .view");
  if (before !== view) {
    if (before) before.scrolled = window.scrollY;
    main.replaceChildren(page.notice, view);
    main.dataset.view = id;
    window.scrollTo(0, view.scrolled ?? 0);
  }
  showMissingView(route, id);
  for (const tab of document.querySelectorAll(".tabs a")) {
    if (tab.dataset.view === id) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  if (document.activeElement !== page.box) page.box.value = route.search ?? route.find ?? "";
  const follow = { timeline: followTimeline, lanes: followLanes, cache: followCache, verdict: followVerdict, search: followSearch }[id];
  page.routing = Promise.resolve(follow(route, () => shown === page.shown)).catch((error) => console.error(error));
}

function followTimeline(route) {
  if (turnByKey.has(route.at)) page.cursor = turnByKey.get(route.at);
  page.chart.showTurn(page.cursor);
}

async function followLanes(route, stillWanted) {
  const exchange = exchangeById.get(route.exchange);
  const turn = turnByKey.get(route.turn) ?? (exchange === undefined ? null : report.exchanges[exchange].turn);
  const lane = laneById.get(route.lane);
  busy(markInTree(turn, lane));
  const alone = turn !== null || lane !== undefined || exchange !== undefined;
  page.tree.parentElement.classList.toggle("has-detail", alone);
  page.detail.scrollTop = 0;
  if (alone && page.tree.parentElement.matches(".narrow, .has-detail")) window.scrollTo(0, 0);
  if (turn !== null) {
    page.cursor = turn;
    announce(turnKey(report.turns[turn]));
    await turnInto(page.detail, turn, exchange === undefined ? route : { ...route, show: route.show ?? "raw" }, stillWanted);
  } else if (lane !== undefined) page.detail.replaceChildren(lanePage(lane));
  else if (exchange !== undefined) await exchangeInto(page.detail, exchange, route.find ? needle(route.find) : null);
  else page.detail.replaceChildren(notFound(route) ?? h("p.faint.pick", null, "Select a turn or a lane. Use j and k to move between turns, and Enter to open one."));
  // Keyboard navigation continues at the heading.
  if (alone && document.activeElement === document.body) page.detail.querySelector("h2")?.focus({ preventScroll: true });
  if (alone) page.detail.prepend(h("p.back", null, link({ view: "lanes" }, "‹ all lanes")));
}

function notFound(route) {
  const asked = route.turn ?? route.lane ?? route.exchange;
  return asked === undefined ? null : h("p.notice", null, "There is no ", h("code", null, asked), " on this page.");
}

let marked = 0;
async function markInTree(turn, lane) {
  const asked = ++marked;
  const selector = lane === undefined ? null : ".lane[data-lane=\"" + CSS.escape(report.lanes[lane].id) + "\"] > summary a";
  const isTurn = turn !== null && turn !== undefined;
  const row = isTurn ? await rowInTree(page.tree, turnKey(report.turns[turn])) : (await page.tree.complete, selector && page.tree.querySelector(selector));
  if (asked !== marked) return;
  for (const old of page.tree.querySelectorAll("[aria-current]")) old.removeAttribute("aria-current");
  row?.setAttribute("aria-current", "true");
  if (row) await scrollToElement(row, "nearest", () => asked === marked);
}

async function followCache(route, stillWanted) {
  if (route.at === undefined) return;
  await viewOf("cache").querySelector(".requests").complete;
  if (!stillWanted()) return;
  const row = viewOf("cache").querySelector(".request-row[data-exchange=\"" + CSS.escape(route.at) + "\"]");
  if (!row) return;
  row.hidden = false;
  row.open = true;
  mark(row);
  await scrollToElement(row, "center", stillWanted);
}

async function followVerdict(route, stillWanted) {
  if (route.difference === undefined) return;
  await viewOf("verdict").querySelector(".differences")?.complete;
  if (!stillWanted()) return;
  const row = viewOf("verdict").querySelector(".difference[data-difference=\"" + CSS.escape(route.difference) + "\"]");
  if (!row) return showNotice("This page has no difference ", h("code", null, route.difference), ".");
  page.difference = Number(route.difference) - 1;
  row.open = true;
  mark(row);
  await scrollToElement(row, "start", stillWanted);
}

function followSearch(route) {
  page.search.run(route.search.trim());
}

// Marks the row at the keyboard cursor.
function mark(row) {
  for (const old of document.querySelectorAll(".at-cursor")) old.classList.remove("at-cursor");
  row?.classList.add("at-cursor");
}

// The next key continues from this row, even while the page still scrolls to it.
let scrollTarget = null;
function scrollToRow(row, block) {
  scrollTarget = row;
  mark(row);
  if (row) busy(scrollToElement(row, block, () => scrollTarget === row));
}

let typing = 0;
function typed(wait = 160) {
  clearTimeout(typing);
  typing = setTimeout(() => {
    const query = page.box.value;
    const inSearch = page.route.search !== undefined;
    if (query || inSearch) go({ search: query }, inSearch);
  }, wait);
}

function orderOfTurns(view) {
  if (view === "lanes") return turnsOfLane.flat();
  if (view === "cache") return report.cache.requests.map((it) => report.exchanges[it.exchange].turn).filter((it) => it !== null);
  return report.turns.map((_, at) => at);
}

function step(by) {
  const view = page.main.dataset.view;
  if (view === "verdict") return stepDifference(by);
  if (view === "search") return stepFind(by);
  const order = orderOfTurns(view);
  const here = order.indexOf(page.cursor);
  const next = here < 0 ? (by > 0 ? 0 : order.length - 1) : Math.min(order.length - 1, Math.max(0, here + by));
  if (order[next] === undefined) return;
  page.cursor = order[next];
  announce(turnKey(report.turns[page.cursor]));
  if (view === "timeline") page.chart.showTurn(page.cursor);
  if (view === "lanes") stepInLanes();
  if (view === "cache") {
    const row = page.main.querySelector(".request-row[data-turn=\"" + CSS.escape(turnKey(report.turns[page.cursor])) + "\"]");
    scrollToRow(row, "nearest");
  }
}

// An open turn follows the cursor after the key is released.
let following = 0;
function stepInLanes() {
  busy(markInTree(page.cursor));
  if (page.route.turn === undefined) return;
  clearTimeout(following);
  following = setTimeout(() => go({ turn: turnKey(report.turns[page.cursor]) }, true), 120);
}

function stepDifference(by) {
  const most = report.verdict.differences.length - 1;
  if (most < 0) return;
  page.difference = page.difference === null ? 0 : Math.min(most, Math.max(0, page.difference + by));
  const row = page.main.querySelector(".difference[data-difference=\"" + (page.difference + 1) + "\"]");
  scrollToRow(row, "center");
}

function stepFind(by) {
  const links = [...page.search.element.querySelectorAll("h3 a, li > a")];
  const here = links.indexOf(document.activeElement);
  links[Math.min(links.length - 1, Math.max(0, here + by))]?.focus();
}

function openCursor() {
  const view = page.main.dataset.view;
  const row = page.main.querySelector(".at-cursor");
  if (view === "verdict" || view === "cache") return row && (row.open = !row.open);
  if (page.cursor !== null) go({ turn: turnKey(report.turns[page.cursor]) });
}

function help() {
  if (!page.help) {
    page.help = h("dialog", { "aria-label": "keys" }, h("h2", null, "Keys"), definitions(KEYS.map(([key, does]) => [h("kbd", null, key), does])),
      h("form", { method: "dialog" }, h("button", null, "close")));
    document.body.append(page.help);
  }
  if (page.help.open) page.help.close();
  else page.help.showModal();
}

const THEMES = [["auto", "◐"], ["light", "○"], ["dark", "●"]];

// A page from a file may have no storage. Then the choice lasts as long as the page.
function storedTheme(value) {
  try {
    if (value) sessionStorage.setItem("offshoot-theme", value);
    return sessionStorage.getItem("offshoot-theme");
  } catch {
    return null;
  }
}

function setTheme(name) {
  const [theme, sign] = THEMES.find(([it]) => it === name) ?? THEMES[0];
  document.documentElement.dataset.theme = theme;
  page.theme.textContent = sign;
  page.theme.title = "theme: " + theme + " (t)";
  page.theme.setAttribute("aria-label", "theme: " + theme);
  page.chart?.scheduleDraw();
}

function nextTheme() {
  const at = THEMES.findIndex(([name]) => name === document.documentElement.dataset.theme);
  const [next] = THEMES[(at + 1) % THEMES.length];
  storedTheme(next);
  setTheme(next);
}

function onEscape() {
  if (page.chart) page.chart.tip.hidden = true;
  if (document.activeElement === page.box) page.box.blur();
  else if (page.route.search !== undefined) history.back();
  else if (page.main.dataset.view === "lanes" && page.route.view === undefined) go({ view: "lanes" });
}

const ACTS = {
  "/": () => { page.box.focus(); page.box.select(); }, j: () => step(1), k: () => step(-1), o: openCursor, "?": help, t: nextTheme, Escape: onEscape,
  "+": () => page.chart?.zoom(1 / 1.6), "=": () => page.chart?.zoom(1 / 1.6), "]": () => page.chart?.zoom(1 / 1.6),
  "-": () => page.chart?.zoom(1.6), "[": () => page.chart?.zoom(1.6), 0: () => page.chart?.show(...page.chart.whole),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || page.help?.open) return;
  const inBox = event.target.matches?.("input, textarea");
  if (inBox && event.key !== "Escape") return;
  // Enter activates the focused element, if it is a control.
  if (event.key === "Enter" && !event.target.closest("a, button, summary, input")) openCursor();
  else if (VIEWS.some((view) => view.key === event.key && view.is())) go({ view: VIEWS.find((view) => view.key === event.key).id });
  else if (Object.hasOwn(ACTS, event.key)) ACTS[event.key]();
  else return;
  event.preventDefault();
}

function start() {
  page.main = h("main", { id: "main" });
  page.notice = h("p.notice", { role: "status", hidden: true });
  document.getElementById("app").append(h("a.skip", { href: "#main", onclick: (event) => { event.preventDefault(); page.main.querySelector("a, button, summary, [tabindex]")?.focus(); } }, "skip to the content"), header(), page.main, liveRegion);
  setTheme(storedTheme());
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", onRoute);
  onRoute();
}

start();
window.offshootReport = {
  ready: blocksLoaded,
  report,
  async idle() {
    await blocksLoaded;
    for (let shown = -1; shown !== page.shown; ) {
      shown = page.shown;
      await page.routing;
      await whenIdle();
      await nextFrame();
    }
  },
};
