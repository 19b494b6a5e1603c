// The verdict: surfaces, lanes, and each difference with its place.

const LEVELS = ["E1", "E2", "E3", "E4"];
const LEVEL_WORDS = { E0: "same outcome", E1: "same shape", E2: "same structure", E3: "equal after masks", E4: "byte-equal" };
const OUTCOME_WORDS = { match: "PASS", differs: "FAIL", inconclusive: "INCONCLUSIVE" };

// A level in words, such as "same structure (E2)".
const levelWords = (level) => (level === null ? "different outcome (below E0)" : LEVEL_WORDS[level] + " (" + level + ")");

function levelTick(it, level, wanted) {
  if (it.compared === 0) return h("td.is-none", { title: "nothing to compare" }, "–");
  if (it.level !== null && it.level >= level) return h("td.is-good", null, "✓");
  return h(level > wanted ? "td.is-none" : "td.is-bad", { title: level > wanted ? "not required" : null }, "✗");
}

function surfaceTable(verdict) {
  const numbers = ["compared", "equal", "masked", "excluded", "echoed", "absent"];
  return table([{ head: "surface", cell: (it) => it.surface },
    ...LEVELS.map((level) => ({ head: level, cell: (it) => levelTick(it, level, verdict.wanted) })),
    ...numbers.map((name) => ({ head: name, n: true, cell: (it) => count(it[name]) }))],
  verdict.surfaces, (it) => ({ data: { surface: it.surface } }));
}

function levelCell(it, wanted) {
  if (!it || it.compared === 0) return h("td.is-none", null, "–");
  if (it.level === null) return h("td.is-bad", null, "✗");
  return h(it.level >= wanted ? "td.is-good" : "td.is-bad", null, (it.level >= wanted ? "✓ " : "✗ ") + it.level);
}

function laneTable(verdict) {
  const name = (lane) => (lane.golden === lane.candidate ? lane.golden : (lane.golden ?? "nothing") + " ↔ " + (lane.candidate ?? "nothing"));
  const place = (lane) => (laneById.has(lane.candidate) ? laneLink(laneById.get(lane.candidate), name(lane)) : name(lane));
  return table([{ head: "lane", cell: place },
    ...verdict.surfaces.map(({ surface }) => ({ head: surface, cell: (lane) => levelCell(lane.surfaces.find((it) => it.surface === surface), verdict.wanted) }))],
  verdict.lanes, (lane) => ({ data: { lane: lane.candidate ?? lane.golden ?? "" } }));
}

// Returns the turn of this recording with a difference. A difference names the golden's lane and turn, or the candidate's
// if the golden has none.
function turnOfDifference(difference) {
  const pair = report.verdict.lanes.find((it) => it.golden === difference.lane);
  if (!pair) return turnByKey.get(difference.lane + ":" + difference.turn) ?? null;
  const isAlone = difference.golden === null && pair.turns.some(([theirs, own]) => theirs === null && own === difference.turn);
  const met = pair.turns.find(([theirs]) => theirs === difference.turn);
  return turnByKey.get(pair.candidate + ":" + (isAlone || !met ? difference.turn : met[1])) ?? null;
}

const isCounted = (difference, wanted) => difference.holds === null || difference.holds < wanted;

function differenceBody(difference, at) {
  const turn = turnOfDifference(difference);
  const compare = turn !== null && goldenBlock(lastExchange(report.turns[turn]));
  return [bothValues(difference.golden, difference.candidate, ["golden", "candidate"]),
    h("p.links", null, compare && turnLink(turn, { compare: "golden", at: difference.pointer }, "compare the requests"), " ",
      turn !== null && turnLink(turn, null, "open the turn"), " ", link({ difference: at + 1 }, "link to this")),
    difference.mask && h("div.mask", null, h("p.label", null, "rule for parity.toml that would cover it ", copyButton(difference.mask)), h("pre", { tabindex: "0" }, difference.mask))];
}

function differenceRow(at, open) {
  const difference = report.verdict.differences[at];
  const counted = isCounted(difference, report.verdict.wanted);
  const title = [h("b.sign", { "aria-hidden": "true" }, counted ? "✗" : "·"), h("span.number", null, String(at + 1)), chip(difference.surface), h("span", null, difference.what),
    h("code", null, difference.pointer),
    h("span.faint", null, levelWords(difference.holds) + (difference.racy ? ", race: " + difference.racy : "") + (counted ? "" : ", not counted"))];
  return fold(title, (inside) => fill(inside, differenceBody(difference, at)),
    { open, name: "details.difference" + (counted ? ".counted" : ""), data: { difference: String(at + 1), surface: difference.surface } });
}

function groupsOf(differences) {
  const groups = [];
  differences.forEach((it, at) => {
    const last = groups[groups.length - 1];
    if (last && last.lane === it.lane && last.turn === it.turn) last.of.push(at);
    else groups.push({ lane: it.lane, turn: it.turn, of: [at] });
  });
  return groups;
}

function differenceGroup(group, mayOpen) {
  const turn = turnOfDifference(report.verdict.differences[group.of[0]]);
  return h("section.group", null, h("h3", null, group.lane + ", turn " + group.turn, " ", turn !== null && turnLink(turn, null, "open")),
    group.of.map((at) => differenceRow(at, mayOpen(at))));
}

function differencesSection(verdict) {
  if (!verdict.differences.length) return "";
  let opened = 0;
  const mayOpen = (at) => isCounted(verdict.differences[at], verdict.wanted) && ++opened <= 12;
  const left = verdict.differences_left_out ?? 0;
  return h("section", null, h("h2", null, "Differences ", h("span.faint", null, count(verdict.differences.length + left))),
    appendSlowly(h("div.differences"), groupsOf(verdict.differences), (group) => differenceGroup(group, mayOpen), 40),
    left > 0 && h("p.more", null, many(left, "more difference"), " left out; `offshoot verify --format json` has them all"));
}

// Joins lines that were wrapped for a terminal.
function unbroken(lines) {
  return lines.reduce((whole, line) => (/^\s/.test(line) && whole.length ? [...whole.slice(0, -1), whole.at(-1) + " " + line.trim()] : [...whole, line]), []);
}

function listSection(title, lines) {
  return lines.length ? h("section", null, h("h2", null, title), h("ul", null, lines.map((it) => h("li", null, it)))) : "";
}

function verdictHead(verdict) {
  const sides = (name, path, about) => [name, [h("code", null, path), h("div.faint", null, about)]];
  const word = { match: "good", differs: "bad", inconclusive: "warn" }[verdict.outcome.is] ?? "warn";
  return h("section", null,
    h("h2", null, h("span.badge." + word, null, OUTCOME_WORDS[verdict.outcome.is] ?? verdict.outcome.is), levelWords(verdict.level) + ", required " + levelWords(verdict.wanted)),
    verdict.outcome.because && h("p", null, verdict.outcome.because),
    definitions([sides("golden", verdict.golden, verdict.about[0]), sides("candidate", verdict.candidate, verdict.about[1]),
      ["ids paired", verdict.id_pairs ? count(verdict.id_pairs) : null]]));
}

function masksAndRules(verdict) {
  return [verdict.masks.length > 0 && h("section", null, h("h2", null, "Masks"), table([{ head: "mask", cell: (it) => it.name },
    { head: "covers", long: true, cell: (it) => it.covers }, { head: "hits", n: true, cell: (it) => count(it.hits) },
    { head: "differed", n: true, cell: (it) => count(it.differed) }], verdict.masks)),
  verdict.rules.length > 0 && h("section", null, h("h2", null, "Rules of parity.toml"), table([
    { head: "surface", cell: (it) => [it.surface, it.stale && [" ", chip("stale", "bad")]] }, { head: "pointer", cell: (it) => h("code", null, it.pointer) },
    { head: "reason", long: true, cell: (it) => it.reason }, { head: "hits", n: true, cell: (it) => count(it.hits) }], verdict.rules))];
}

function verdictCache(verdict) {
  if (!verdict.cache?.length) return "";
  return h("section", null, h("h2", null, "Effects on the prompt cache"), table([
    { head: "lane", cell: (it) => (laneById.has(it.lane) ? laneLink(laneById.get(it.lane)) : it.lane) }, { head: "from block", n: true, cell: (it) => count(it.block) },
    { head: "pointer", cell: (it) => h("code", null, it.pointer) }, { head: "reason", cell: (it) => (it.reason ? words(it.reason) : "the first request differs") },
    { head: "turns", n: true, cell: (it) => count(it.turns) }, { head: "tokens each", n: true, cell: (it) => count(it.tokens) },
    { head: "cost", n: true, cell: (it) => dollars(it.usd) }], verdict.cache));
}

function verdictView(verdict) {
  return [verdictHead(verdict), listSection("What changed", unbroken(verdict.summary)),
    h("h2", null, "Surfaces"), surfaceTable(verdict),
    verdict.lanes.length > 0 && [h("h2", null, "Lanes"), laneTable(verdict)],
    differencesSection(verdict), masksAndRules(verdict), verdictCache(verdict), listSection("Notes", verdict.notes)];
}
