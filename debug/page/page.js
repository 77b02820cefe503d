"use strict";
// The page asks its node for the trees of all nodes once a second and changes what differs. Every text that comes from the
// node is set as text, never as markup.
(function () {
  var everyMS = 1000, limitMS = 5000, children = 200;
  var opened = new Set(), chosen = null, token = "";
  try { token = sessionStorage.getItem("troupe-token") || ""; } catch (e) { /* kept for this view alone */ }
  var at = function (id) { return document.getElementById(id); };

  function make(kind, look, text) {
    var e = document.createElement(kind);
    if (look) e.className = look;
    if (text) e.textContent = text;
    return e;
  }

  function say(e, text) { if (e.textContent !== text) e.textContent = text; }

  // sync makes the elements below parent those of the list: it makes, moves, updates and removes as few as it can.
  function sync(parent, list, keyOf, create, update) {
    var had = new Map();
    Array.from(parent.children).forEach(function (e) { had.set(e.dataset.key, e); });
    list.forEach(function (item, i) {
      var key = keyOf(item), e = had.get(key);
      had.delete(key);
      if (!e) {
        e = create(item);
        e.dataset.key = key;
      }
      if (parent.children[i] !== e) parent.insertBefore(e, parent.children[i] || null);
      update(e, item);
    });
    had.forEach(function (e) { e.remove(); });
  }

  // fold makes an element that opens and closes, and stays so over the changes; filled runs when it opens.
  function fold(look, key) {
    var e = make("details", look);
    e.append(make("summary"), make("div", "below"));
    e.open = opened.has(key);
    e.addEventListener("toggle", function () {
      if (e.open) opened.add(key); else opened.delete(key);
      if (e.fill) e.fill();
    });
    return e;
  }

  function showNode(e, part) {
    var n = view.node(part), head = e.children[0];
    e.className = "node " + n.look;
    if (!head.children.length) {
      ["name", "state", "seen", "actors", "address", "incarnation", "error", "error"].forEach(function (look) { head.append(make("span", look)); });
    }
    [n.name, n.state, n.seen, n.actors, n.address, n.incarnation.slice(-8), n.error, n.waits].forEach(function (text, i) { say(head.children[i], text); });
    head.children[5].title = n.incarnation;
    e.fill = function () {
      var below = e.children[1];
      if (!e.open || !part.tree) {
        below.replaceChildren();
        return;
      }
      showBranches(below, part, { children: part.tree.roots });
    };
    e.fill();
  }

  function showBranches(parent, part, branch) {
    var lines = view.branches(branch.children);
    if (branch.hidden) lines.push({ id: "", hidden: branch.hidden });
    sync(parent, lines, function (b) { return b.id; }, function (b) {
      return b.id === "" ? make("p", "more") : fold("actor", part.incarnation + " " + b.id);
    }, function (e, b) {
      if (b.id === "") say(e, view.hidden(b.hidden)); else showActor(e, part, b);
    });
  }

  function showActor(e, part, branch) {
    var a = view.actor(branch, part.tree.at), head = e.children[0];
    e.className = "actor" + (a.leaf ? " leaf" : "") + (a.trouble ? " trouble" : "");
    if (!head.children.length) {
      var name = make("button", "name");
      name.type = "button";
      name.addEventListener("click", function (event) {
        event.preventDefault();
        choose(part, branch.id);
      });
      head.append(name, make("span", "state"), make("span", "facts"), make("span", "since"), make("span", "count"));
    }
    [a.name, a.words.join(" "), a.facts.join(" "), a.since, !e.open && a.below ? a.below + " below" : ""].forEach(function (text, i) { say(head.children[i], text); });
    head.children[0].title = a.key;
    e.fill = function () {
      if (e.open && !a.leaf) showBranches(e.children[1], part, branch); else e.children[1].replaceChildren();
    };
    e.fill();
  }

  // ask asks the node, and says what was wrong in words.
  async function ask(path) {
    var headers = token ? { Authorization: "Bearer " + token } : {}, response, body;
    try {
      response = await fetch(path, { headers: headers, cache: "no-store", signal: AbortSignal.timeout(limitMS) });
      body = await response.json();
    } catch (e) {
      throw new Error("this node does not answer");
    }
    at("login").hidden = response.status !== 401 && response.status !== 403;
    if (!response.ok) throw new Error(body.error ? body.error.message : "this node answered " + response.status);
    return body;
  }

  async function look() {
    var stale = at("stale");
    try {
      var forest = await ask("/debug/actors?cluster=1&children=" + children);
      if (!opened.size && !at("nodes").children.length) forest.nodes.forEach(function (p) { if (p.own) opened.add(p.incarnation); });
      sync(at("nodes"), forest.nodes, function (p) { return p.incarnation; }, function (p) { return fold("node", p.incarnation); }, showNode);
      say(at("summary"), view.summary(forest.nodes));
      say(at("at"), "as of " + new Date(forest.at).toLocaleTimeString());
      stale.hidden = true;
      document.body.className = "";
    } catch (e) {
      say(stale, e.message + (at("nodes").children.length ? "; what is shown is old" : ""));
      stale.hidden = false;
      document.body.className = "old";
    }
  }

  async function choose(part, id) {
    chosen = { part: part, id: id };
    var panel = at("detail"), want = chosen;
    panel.hidden = false;
    say(at("detail-name"), part.node + ": " + id);
    try {
      var d = await ask(view.path(id, part.incarnation));
      if (chosen !== want) return;
      var changes = view.changes(d.history);
      delete d.history;
      say(at("detail-text"), JSON.stringify(d, null, 2));
      say(at("detail-history"), changes.length ? changes.join("\n") : "no history");
    } catch (e) {
      if (chosen !== want) return;
      say(at("detail-text"), e.message);
      say(at("detail-history"), "");
    }
  }

  at("detail-close").addEventListener("click", function () {
    chosen = null;
    at("detail").hidden = true;
  });
  at("login").addEventListener("submit", function (event) {
    event.preventDefault();
    token = at("token").value;
    try { sessionStorage.setItem("troupe-token", token); } catch (e) { /* kept for this view alone */ }
    look();
  });

  // round looks again and again, one look at a time, and rests while nobody sees the page or it is paused.
  async function round() {
    if (!document.hidden && !at("pause").checked) await look();
    setTimeout(round, everyMS);
  }
  round();
})();
