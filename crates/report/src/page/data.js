// The data of the page: its index, the blocks behind it, and the bodies these hold.

const report = JSON.parse(document.getElementById("index").textContent);

const turnKey = (turn) => report.lanes[turn.lane].id + ":" + turn.turn;
const turnByKey = new Map(report.turns.map((turn, at) => [turnKey(turn), at]));
const laneById = new Map(report.lanes.map((lane, at) => [lane.id, at]));
const exchangeById = new Map(report.exchanges.map((exchange, at) => [exchange.id, at]));

// A run below another one is called after it: in a list, what is its own tells it from its brothers.
function ownName(id) {
  const root = report.lanes[0]?.id;
  return id !== root && id.startsWith(root + "-") ? "…" + id.slice(root.length) : id;
}

const turnsOfLane = report.lanes.map(() => []);
report.turns.forEach((turn, at) => turnsOfLane[turn.lane].push(at));
turnsOfLane.forEach((of) => of.sort((a, b) => report.turns[a].turn - report.turns[b].turn));

const cacheOfExchange = new Map((report.cache?.requests ?? []).map((request) => [request.exchange, request]));

const lastExchange = (turn) => turn.exchanges[turn.exchanges.length - 1];

function hasFailed(exchange) {
  return exchange !== undefined && (exchange.status >= 400 || (exchange.ending !== null && exchange.ending !== "complete"));
}

// Asked, and no end was seen: who recorded it was broken off, or is still at work.
const isOpen = (exchange) => exchange !== undefined && exchange.at !== null && exchange.end === null;

// The last moment that anybody knows of; what has no end lasts until then at least.
const lastMoment = [...report.exchanges, ...report.tools].reduce((last, it) => Math.max(last, it.at ?? 0, it.first ?? 0, it.end ?? 0), 0);

const endOf = (it) => it.end ?? Math.max(lastMoment, it.at);

function turnBefore(turn) {
  const of = turnsOfLane[turn.lane];
  return of[of.indexOf(report.turns.indexOf(turn)) - 1] ?? null;
}

// Blocks stand behind this script and are parsed after it: the page is shown meanwhile.
const blocksAreThere = new Promise((resolve) => {
  if (document.readyState !== "loading") resolve();
  else document.addEventListener("DOMContentLoaded", () => resolve(), { once: true });
});

async function blockText(id) {
  // What has nothing behind it may still be growing.
  if (!document.getElementById(id)?.nextElementSibling) await blocksAreThere;
  return document.getElementById(id)?.textContent ?? null;
}

// The last ones that were read stay, up to a size; the page holds them all as text anyway.
function keeper(most) {
  const held = new Map();
  let size = 0;
  return {
    get(id) {
      const it = held.get(id);
      if (it === undefined) return undefined;
      held.delete(id);
      held.set(id, it);
      return it.value;
    },
    put(id, value, weight) {
      if (held.has(id)) return;
      held.set(id, { value, weight });
      size += weight;
      for (const [oldest, it] of held) {
        if (size <= most || oldest === id) break;
        held.delete(oldest);
        size -= it.weight;
      }
    },
  };
}

const blocksRead = keeper(40e6);
const textsJoined = keeper(40e6);

async function block(id) {
  const known = blocksRead.get(id);
  if (known !== undefined) return known;
  const text = await blockText(id);
  if (text === null) return null;
  const value = JSON.parse(text);
  blocksRead.put(id, value, text.length);
  return value;
}

// A request mostly repeats an earlier one: what it repeats is taken from there.
async function requestText(id) {
  const chain = [];
  let text;
  for (let at = id; text === undefined; ) {
    text = textsJoined.get(at);
    if (text !== undefined) break;
    const body = (await block(at))?.request.body;
    if (!body || chain.length > 1000) return null;
    if (body.base === undefined) {
      text = body.text ?? null;
    } else {
      chain.push(body);
      at = body.base;
      await breathe();
    }
  }
  if (text === null) return null;
  for (const { head, tail, text: own } of chain.reverse()) {
    text = text.slice(0, head) + own + text.slice(text.length - tail);
  }
  textsJoined.put(id, text, text.length);
  return text;
}

async function bodyOf(id, half) {
  const body = (await block(id))?.[half]?.body;
  if (!body || body.lost) return { lost: true };
  if (body.base64 !== undefined) return { base64: body.base64 };
  if (body.base === undefined) return { text: body.text };
  if (half === "request") return { text: await requestText(id) };
  const base = await requestText(body.base);
  return { text: base.slice(0, body.head) + body.text + base.slice(base.length - body.tail) };
}

// Long work gives the page a chance to answer in between.
let sliceBegan = performance.now();
async function breathe(budget = 12) {
  if (performance.now() - sliceBegan < budget) return;
  await new Promise((resolve) => setTimeout(resolve));
  sliceBegan = performance.now();
}
