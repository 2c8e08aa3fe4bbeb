"use strict";
// Whatever entries say is put into the page as text, never as markup.
const byId = (id) => document.getElementById(id);
const entries = JSON.parse(byId("data").textContent).entries;
const PAGE = 50;
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
const TESTS = {
  all: () => true,
  never: (one) => !one.given,
  unused: (one) => one.given && !one.used,
  used: (one) => one.used,
  stale: (one) => one.verdict === "changed" || one.verdict === "gone",
  related: (one) => one.others,
};

function draw(number) {
  const one = entries[number];
  const node = make("details", "", "entry");
  node.id = `entry-${number}`;
  const head = make("summary");
  head.append(make("bdi", one.title), " ");
  const chips = [one.type, one.scope, one.given ? `used ${one.used || 0} of ${one.given}` : "never given"];
  if (one.status !== "active") chips.push(one.status);
  if (one.verdict && one.verdict !== "fresh") chips.push(`code ${one.verdict}`);
  for (const chip of chips) head.append(make("span", chip, "chip"), " ");
  node.append(head);
  node.addEventListener("toggle", () => node.children.length > 1 || fill(node, one));
  return node;
}
function fill(node, one) {
  if (one.body) node.append(make("p", one.body, "body"));
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
  const [type, scope, state] = ["type", "scope", "state"].map((name) => byId(name).value);
  const found = [];
  entries.forEach((one, number) => {
    if ((!type || one.type === type) && (!scope || one.scope === scope) && TESTS[state](one)
        && asked.every((word) => words[number].includes(word))) found.push(number);
  });
  byId("list").replaceChildren(...found.slice(0, shown).map(draw));
  byId("count").textContent = `${found.length} of ${entries.length} entries` +
    (found.length > shown ? `, the first ${shown} are shown` : "");
  byId("more").hidden = found.length <= shown;
  const kept = new Set(found.map((number) => `#entry-${number}`));
  for (const dot of document.querySelectorAll("#use figure a"))
    dot.classList.toggle("faint", !kept.has(dot.getAttribute("xlink:href")));
}
function open() {
  const number = Number((/^#entry-(\d+)$/.exec(location.hash) || [])[1] ?? NaN);
  if (!entries[number]) return;
  let node = byId(`entry-${number}`);
  if (!node) byId("list").prepend(node = draw(number));
  node.open = true;
  node.scrollIntoView();
  node.firstChild.focus();
}

if (entries.length) {
  for (const name of ["type", "scope"])
    for (const value of [...new Set(entries.map((one) => one[name]))].sort()) byId(name).append(new Option(value));
  for (const name of ["search", "type", "scope", "state"])
    byId(name).addEventListener("input", () => { shown = PAGE; search(); });
  byId("more").addEventListener("click", () => { shown += PAGE; search(); });
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
  // A link has the focus in its turn; a mark that leads nowhere must be given it.
  for (const mark of figure.querySelectorAll('[role="graphics-symbol"][aria-label]'))
    if (!mark.closest("a")) mark.setAttribute("tabindex", "0");
}
