// Formats texts, numbers and times. All functions are pure.
"use strict";

const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;

// Replaces characters that could move the cursor or change the writing direction by their code point.
function visible(text) {
  return String(text).replace(INVISIBLE, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");
}

function oneLine(text, most = 300) {
  const start = String(text).slice(0, most * 2).replace(/\s+/g, " ").trim();
  return start.length > most || text.length > most * 2 ? cutAt(start, most) + "…" : start;
}

// Cuts a text without splitting a surrogate pair.
function cutAt(text, end) {
  const code = text.charCodeAt(end - 1);
  return text.slice(0, code >= 0xd800 && code <= 0xdbff ? end - 1 : end);
}

const GROUPED = new Intl.NumberFormat("en");
function count(n) {
  return n === null || n === undefined ? "–" : GROUPED.format(n);
}

// Formats a number with its noun, as in "1 turn", "2 turns".
function many(n, one, more = one + "s") {
  return count(n) + " " + (n === 1 ? one : more);
}

function tokens(n) {
  if (n === null || n === undefined) return "–";
  if (n < 10000) return count(n);
  return n < 1e6 ? (n / 1e3).toFixed(n < 1e5 ? 1 : 0) + "k" : (n / 1e6).toFixed(2) + "M";
}

function bytes(n) {
  if (n === null || n === undefined) return "–";
  if (n < 1000) return n + " B";
  return n < 1e6 ? (n / 1e3).toFixed(n < 1e4 ? 1 : 0) + " kB" : (n / 1e6).toFixed(1) + " MB";
}

function dollars(usd) {
  if (usd === null || usd === undefined) return "–";
  return "$" + usd.toFixed(usd >= 1 || usd === 0 ? 2 : 4);
}

function duration(us) {
  if (us === null || us === undefined) return "–";
  if (us < 1e3) return Math.round(us) + " µs";
  if (us < 1e6) return (us / 1e3).toFixed(us < 1e4 ? 1 : 0) + " ms";
  if (us < 60e6) return (us / 1e6).toFixed(us < 10e6 ? 2 : 1) + " s";
  const seconds = Math.round(us / 1e6);
  const two = (n) => String(n).padStart(2, "0");
  if (seconds < 3600) return Math.floor(seconds / 60) + ":" + two(seconds % 60) + " min";
  return Math.floor(seconds / 3600) + ":" + two(Math.floor((seconds % 3600) / 60)) + ":" + two(seconds % 60) + " h";
}

// Formats a time on the axis with as many digits as the distance of the ticks needs.
function clock(us, step) {
  const sign = us < 0 ? "−" : "";
  const at = Math.abs(us);
  if (at === 0) return "0";
  if (step < 1e3) return sign + +(at / 1e3).toFixed(3) + " ms";
  if (step < 1e6 && at < 1e6) return sign + Math.round(at / 1e3) + " ms";
  const digits = step < 1e4 ? 3 : step < 1e5 ? 2 : step < 1e6 ? 1 : 0;
  if (at < 60e6) return sign + (at / 1e6).toFixed(digits) + " s";
  const seconds = (at / 1e6) % 60;
  const minutes = Math.floor(at / 60e6);
  const rest = seconds.toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  if (minutes < 60) return sign + minutes + ":" + rest;
  return sign + Math.floor(minutes / 60) + ":" + String(minutes % 60).padStart(2, "0") + ":" + rest;
}

function words(name) {
  return String(name).replace(/_/g, " ");
}

// Formats JSON for reading. Values that are nested too deeply for the engine are named instead.
function indented(value) {
  try {
    return JSON.stringify(value, null, 2) ?? "";
  } catch {
    return "(nested too deeply)";
  }
}

function parsed(text) {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return null;
  }
}
