// The data of the page: the index, the blocks, and the bodies in them.

const report = JSON.parse(document.getElementById("index").textContent);

const turnKey = (turn) => report.lanes[turn.lane].id + ":" + turn.turn;
const turnByKey = new Map(report.turns.map((turn, at) => [turnKey(turn), at]));
const laneById = new Map(report.lanes.map((lane, at) => [lane.id, at]));
const exchangeById = new Map(report.exchanges.map((exchange, at) => [exchange.id, at]));

// The id of a run starts with its parent's id. In lists, only the own part is shown.
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

// Returns whether no end was seen: the recorder was interrupted or is still running.
const isOpen = (exchange) => exchange !== undefined && exchange.at !== null && exchange.end === null;

// The last known moment. Open requests last at least until then.
const lastMoment = [...report.exchanges, ...report.tools].reduce((last, it) => Math.max(last, it.at ?? 0, it.first ?? 0, it.end ?? 0), 0);

const endOf = (it) => it.end ?? Math.max(lastMoment, it.at);

function turnBefore(turn) {
  const of = turnsOfLane[turn.lane];
  return of[of.indexOf(report.turns.indexOf(turn)) - 1] ?? null;
}

// Blocks follow this script in the document. The page is shown while they load.
const blocksLoaded = new Promise((resolve) => {
  if (document.readyState !== "loading") resolve();
  else document.addEventListener("DOMContentLoaded", () => resolve(), { once: true });
});

async function blockText(id) {
  // The last element may still be loading.
  if (!document.getElementById(id)?.nextElementSibling) await blocksLoaded;
  return document.getElementById(id)?.textContent ?? null;
}

// Keeps recently used values up to a total size. The page contains all of them as text anyway.
function lruCache(most) {
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

const blocksRead = lruCache(40e6);
const textsJoined = lruCache(40e6);

async function block(id) {
  const known = blocksRead.get(id);
  if (known !== undefined) return known;
  const text = await blockText(id);
  if (text === null) return null;
  const value = JSON.parse(text);
  blocksRead.put(id, value, text.length);
  return value;
}

// A request is mostly stored as the difference to an earlier one, its base.
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

// Lets the browser handle events during long work.
let sliceBegan = performance.now();
async function breathe(budget = 12) {
  if (performance.now() - sliceBegan < budget) return;
  await new Promise((resolve) => setTimeout(resolve));
  sliceBegan = performance.now();
}
