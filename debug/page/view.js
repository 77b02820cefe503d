"use strict";
// What the page says of nodes and actors, as plain values. Nothing here touches the page, so it is tested without one.
var view = {};

// lateMS is from when on an answer is old although nothing says why.
view.lateMS = 3000;

// length writes a length of time for people.
view.length = function (ms) {
  ms = Math.max(0, ms);
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 60e3) return (ms / 1000).toFixed(1) + " s";
  if (ms < 3600e3) return Math.floor(ms / 60e3) + " min " + Math.floor(ms / 1000) % 60 + " s";
  if (ms < 48 * 3600e3) return Math.floor(ms / 3600e3) + " h " + Math.floor(ms / 60e3) % 60 + " min";
  return Math.floor(ms / 86400e3) + " days";
};

// node is what stands above a node's tree. Its look is own, reached, late or lost.
view.node = function (part) {
  var look = "reached", seen = "";
  if (part.own) look = "own";
  else if (part.error) look = "lost";
  else if (part.age_ms > view.lateMS) look = "late";
  if (part.own) seen = "this node, now";
  else if (part.tree) seen = "as of " + view.length(part.age_ms) + " ago";
  else seen = "never seen";
  return {
    key: part.incarnation, name: part.node, look: look, seen: seen, state: part.state + (part.cordoned ? ", cordoned" : ""),
    incarnation: part.incarnation, address: part.address || "",
    actors: part.tree ? part.tree.count + " actors" : "",
    error: part.error ? (part.tree ? "not reached: " : "not reached, and nothing known of its actors: ") + part.error : "",
    waits: part.tree && part.tree.waits_for ? "waits for " + part.tree.waits_for.join("; ") : "",
  };
};

// order compares ids as people do: slot 9 before slot 10.
view.order = new Intl.Collator("en", { numeric: true }).compare;

// branches are the actors of one level, in order.
view.branches = function (list) {
  return (list || []).slice().sort(function (a, b) { return view.order(a.id, b.id); });
};

// actor is one line of a tree; at is when its node was asked, by that node's clock.
view.actor = function (branch, at) {
  var words = [branch.state, branch.health, branch.grade].filter(function (word, i) { return word && (i === 0 || word !== "healthy"); });
  var facts = [];
  if (branch.why) facts.push("(" + branch.why + ")");
  if (branch.mailbox_depth > 0) facts.push("mailbox " + branch.mailbox_depth);
  if (branch.restarts > 0) facts.push("restarts " + branch.restarts);
  if (branch.execution) facts.push("runs " + branch.execution);
  if (branch.stuck_since) facts.push("stuck for " + view.length(Date.parse(at) - Date.parse(branch.stuck_since)));
  if (branch.last_failure) facts.push("failed: " + branch.last_failure);
  var trouble = Boolean(branch.stuck_since) || branch.health === "unhealthy" || branch.grade === "unhealthy" ||
    ["degraded", "broken", "fenced", "outage", "doubting"].includes(branch.state);
  return {
    key: branch.id, name: branch.parent ? branch.id.slice(branch.id.lastIndexOf("/") + 1) : branch.id, words: words, facts: facts,
    trouble: trouble, since: branch.since ? view.length(Date.parse(at) - Date.parse(branch.since)) : "",
    leaf: !(branch.children || []).length && !branch.hidden, below: (branch.children || []).length + (branch.hidden ? branch.hidden.count : 0),
  };
};

// hidden says which children are not shown.
view.hidden = function (hidden) {
  if (!hidden) return "";
  var states = Object.keys(hidden.states || {}).sort().map(function (state) { return hidden.states[state] + " " + state; });
  return "… and " + hidden.count + " more" + (states.length ? ": " + states.join(", ") : "");
};

// summary counts the nodes for the head of the page.
view.summary = function (nodes) {
  var actors = 0, lost = 0;
  nodes.forEach(function (part) {
    if (part.tree) actors += part.tree.count;
    if (part.error) lost++;
  });
  return nodes.length + (nodes.length === 1 ? " node, " : " nodes, ") + actors + " actors" + (lost ? ", " + lost + " not reached" : "");
};

// path is where one actor is described.
view.path = function (id, incarnation) {
  return "/debug/actors/" + id.split("/").map(encodeURIComponent).join("/") + "?node=" + encodeURIComponent(incarnation);
};

// changes are the lines of an actor's history; empty where it has none.
view.changes = function (history) {
  if (!Array.isArray(history)) return history && history.error ? [history.error] : [];
  return history.map(function (h) { return h.at + "  " + h.from + " → " + h.to + "  " + h.reason + "  after " + view.length(h.lasted_ms); });
};

if (typeof module !== "undefined") module.exports = view;
