"use strict";
// Whatever entries say is put into the page as text, never as markup.
const byId = (id) => document.getElementById(id);
const entries = JSON.parse(byId("data").textContent).entries;
const PAGE = 25;
let shown = PAGE;

const make = (tag, text, name) => {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  if (name) node.className = name;
  return node;
};
const link = (one) => {
  if (!/^https?:\/\//.test(one.url)) return make("span", one.label);
  const node = make("a", one.label);
  node.href = one.url;
  return node;
};

const words = entries.map((one) =>
  [one.id, one.title, one.body || "", one.type, one.scope, ...(one.quotes || [])].join("\n").toLowerCase());
const TILES = [
  ["in force", (one) => one.is_in_force],
  ["used", (one) => one.used],
  ["served, never used", (one) => one.served && !one.used],
  ["never served", (one) => one.is_in_force && !one.served],
  ["code changed or gone", (one) => has(one, "changed") || has(one, "gone")],
  ["contradicted", (one) => has(one, "contradicted")],
  ["retired or ended", (one) => !one.is_in_force],
];
const has = (one, kind) => (one.faults || []).some((fault) => fault.kind === kind);
const SEVERITY = ["unused", "changed", "contradicted", "gone"];
const rate = (one) => (one.faults || []).reduce((sum, fault) => sum + 10 ** SEVERITY.indexOf(fault.kind), 0);
const ORDERS = {
  newest: (a, b) => (b.at || "").localeCompare(a.at || ""),
  worst: (a, b) => rate(b) - rate(a) || (b.served || 0) - (a.served || 0),
  served: (a, b) => (b.served || 0) - (a.served || 0),
  used: (a, b) => (b.used || 0) - (a.used || 0),
  prominent: () => 0,
  title: (a, b) => a.title.localeCompare(b.title),
};
const FAULTS = {gone: "code gone", changed: "code changed", contradicted: "contradicted", unused: "never used"};
let tile = TILES[0];

function draw(number) {
  const one = entries[number];
  const node = make("details", "", "entry");
  node.id = one.id;
  const head = make("summary");
  head.append(make("bdi", one.title), " ");
  for (const fault of one.faults || []) head.append(make("span", FAULTS[fault.kind], "chip fault"), " ");
  const chips = [one.at, one.type, one.scope, one.served ? `used ${one.used || 0} of ${one.served}` : "never served"];
  if (one.status !== "active") chips.push(one.status);
  for (const chip of chips) if (chip) head.append(make("span", chip, "chip"), " ");
  node.append(head);
  node.addEventListener("toggle", () => node.children.length > 1 || fill(node, one));
  return node;
}
function fill(node, one) {
  if (one.body) node.append(make("p", one.body, "body"));
  for (const fault of one.faults || []) node.append(make("p", `${FAULTS[fault.kind]}: ${fault.detail}`, "note"));
  for (const quote of one.quotes || []) node.append(make("blockquote", quote));
  const life = make("ol");
  for (const step of one.life || []) {
    const item = make("li");
    item.append(make("b", step.what), ` ${step.at || ""} `);
    if (step.text) item.append(make("bdi", step.text), " ");
    for (const some of step.links) item.append(link(some), " ");
    life.append(item);
  }
  node.append(life);
  for (const [kind, title] of one.others || []) node.append(make("p", `${kind}: ${title}`));
  const place = make("p", "", "soft");
  place.append(`${one.place}, prominence ${one.prominence}. All of it: `, make("code", `memory-ci show ${one.id.slice(0, 8)} --why`));
  node.append(place);
}

function search() {
  const asked = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [type, scope, order] = ["type", "scope", "order"].map((name) => byId(name).value);
  const found = [];
  entries.forEach((one, number) => {
    if ((!type || one.type === type) && (!scope || one.scope === scope) && tile[1](one)
        && asked.every((word) => words[number].includes(word))) found.push(number);
  });
  found.sort((a, b) => ORDERS[order](entries[a], entries[b]) || a - b);
  byId("list").replaceChildren(...found.slice(0, shown).map(draw));
  byId("count").textContent = `${found.length} of ${entries.length} ${entries.length === 1 ? "entry" : "entries"}` +
    (found.length > shown ? `, the first ${shown} are shown` : "");
  byId("more").hidden = found.length <= shown;
  const kept = new Set(found.map((number) => `#${entries[number].id}`));
  for (const dot of document.querySelectorAll("#use figure a"))
    dot.classList.toggle("faint", !kept.has(dot.getAttribute("xlink:href")));
}
function restart() {
  shown = PAGE;
  search();
}
// A link to an entry is its id, or the beginning of it.
function open() {
  const id = decodeURIComponent(location.hash.slice(1));
  const number = id.length < 8 ? -1 : entries.findIndex((one) => one.id.startsWith(id));
  if (number < 0) return;
  let node = byId(entries[number].id);
  if (!node) byId("list").prepend(node = draw(number));
  node.open = true;
  node.scrollIntoView();
  node.firstChild.focus();
}
function addTiles() {
  for (const one of TILES) {
    const count = entries.filter(one[1]).length;
    if (!count && one !== tile) continue;
    const button = make("button");
    button.type = "button";
    button.append(make("b", String(count)), ` ${one[0]}`);
    button.setAttribute("aria-pressed", one === tile);
    button.addEventListener("click", () => {
      tile = one;
      for (const other of byId("tiles").children) other.setAttribute("aria-pressed", other === button);
      restart();
    });
    byId("tiles").append(button);
  }
}

if (entries.length) {
  for (const name of ["type", "scope"])
    for (const value of [...new Set(entries.map((one) => one[name]))].sort()) byId(name).append(new Option(value));
  for (const name of ["search", "type", "scope", "order"]) byId(name).addEventListener("input", restart);
  byId("more").addEventListener("click", () => { shown += PAGE; search(); });
  addTiles();
  search();
  addEventListener("hashchange", open);
  open();
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || /INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) return;
    event.preventDefault();
    byId("search").focus();
  });
}

// One task at a time: the one that is typed, or the first that holds its words.
const tasks = [...document.querySelectorAll(".task")];
function choose() {
  const asked = byId("asked").value.toLowerCase();
  const found = tasks.find((one) => one.dataset.task.toLowerCase().includes(asked));
  for (const one of tasks) one.hidden = one !== (found || tasks[0]);
  byId("unasked").hidden = Boolean(found);
}
if (tasks.length > 1) {
  byId("asked").addEventListener("input", choose);
  choose();
}

// What a mark says, below its chart: for a mouse, a finger and the keyboard.
for (const figure of document.querySelectorAll("figure")) {
  const tip = make("output", "", "tip");
  figure.append(tip);
  const say = (event) => {
    const mark = event.target.closest("[aria-label]") || event.target.querySelector?.("[aria-label]");
    if (mark && mark.tagName !== "svg") tip.textContent = mark.getAttribute("aria-label");
  };
  for (const kind of ["mouseover", "focusin", "click"]) figure.addEventListener(kind, say);
  // Tab stops once at a chart; the arrow keys lead from mark to mark.
  for (const chart of figure.querySelectorAll("svg")) {
    const marks = [...chart.querySelectorAll('.role-mark [role="graphics-symbol"][aria-label]')].map((mark) => mark.closest("a") || mark);
    marks.forEach((mark, place) => {
      mark.setAttribute("tabindex", place ? "-1" : "0");
      mark.addEventListener("keydown", (event) => {
        const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
        const next = marks[place + step];
        if (!next) return;
        event.preventDefault();
        mark.setAttribute("tabindex", "-1");
        next.setAttribute("tabindex", "0");
        next.focus();
      });
    });
  }
}
