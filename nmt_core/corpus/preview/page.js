"use strict";
// Counts again what each filter drops whenever a threshold moves, and shows the pairs on both sides of it.
const data = JSON.parse(document.getElementById("data").textContent);
const SHOWN = 40;
const pairs = data.line.length;
const element = (id) => document.getElementById(id);

function make(tag, text, attributes) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  Object.assign(made, attributes || {});
  return made;
}

// The most frequent limit is the recipe's; a corpus with another one has an override, which a moved threshold leaves.
function usual(limits) {
  const counts = new Map();
  limits.forEach((limit) => counts.set(limit, (counts.get(limit) || 0) + 1));
  return [...counts].sort((a, b) => b[1] - a[1])[0][0];
}

for (const filter of data.filters) {
  filter.sides = Object.keys(filter.measures);
  filter.recipe = { on: filter.on, limits: {} };
  filter.now = { on: filter.on, limits: {} };
  for (const side of filter.sides) filter.recipe.limits[side] = filter.now.limits[side] = usual(filter.limits[side]);
  filter.always = !filter.remedy.startsWith("clean.");
  filter.value = new Map(filter.drops.map((pair, place) => [pair, filter.values[place]]));
}

function limitOf(filter, side, pair) {
  const own = filter.limits[side][data.corpus[pair]];
  return own === filter.recipe.limits[side] ? filter.now.limits[side] : own;
}

// How far a pair is beyond the threshold: more than 0 if it is dropped. Null if there is no measure.
function excess(filter, pair) {
  let most = null;
  for (const side of filter.sides) {
    const value = filter.measures[side][pair];
    if (value === null) continue;
    const limit = limitOf(filter, side, pair);
    const beyond = filter.minimum ? limit - value : value - limit;
    if (most === null || beyond > most) most = beyond;
  }
  return most;
}

const moved = (filter) => filter.sides.some((side) => filter.now.limits[side] !== filter.recipe.limits[side]);

// As long as a threshold stays where the recipe has it, the filter's own verdict counts.
function droppedBy(filter) {
  const dropped = new Uint8Array(pairs);
  if (!filter.sides.length || !moved(filter)) {
    for (const pair of filter.drops) dropped[pair] = 1;
    return dropped;
  }
  for (let pair = 0; pair < pairs; pair++) {
    const beyond = data.fault[pair] === null ? excess(filter, pair) : null;
    if (beyond !== null && beyond > 0) dropped[pair] = 1;
  }
  return dropped;
}

let chosen = data.filters.reduce((best, filter) => (filter.on && filter.drops.length > best.drops.length ? filter : best));

function isShown(pair) {
  const corpus = element("corpus").value;
  return corpus === "" || data.corpus[pair] === Number(corpus);
}

function count() {
  const reasons = new Uint8Array(pairs);
  const dropped = data.filters.map(droppedBy);
  for (let pair = 0; pair < pairs; pair++) if (data.fault[pair] !== null) reasons[pair] = 255;
  data.filters.forEach((filter, number) => {
    if (filter.now.on) for (let pair = 0; pair < pairs; pair++) if (reasons[pair] < 200) reasons[pair] += dropped[number][pair];
  });
  let shown = 0, kept = 0;
  for (let pair = 0; pair < pairs; pair++) if (isShown(pair)) { shown++; if (!reasons[pair]) kept++; }
  data.filters.forEach((filter, number) => {
    let all = 0, alone = 0;
    for (let pair = 0; pair < pairs; pair++) {
      if (!dropped[number][pair] || !isShown(pair)) continue;
      all++;
      if (reasons[pair] === (filter.now.on ? 1 : 0)) alone++;
    }
    filter.cells[0].textContent = all.toLocaleString("en");
    filter.cells[1].textContent = alone.toLocaleString("en");
    filter.row.className = (filter.now.on ? "" : "off") + (filter === chosen ? " chosen" : "");
  });
  show(dropped[data.filters.indexOf(chosen)]);
  const share = shown ? (100 * kept) / shown : 0;
  element("kept").textContent = `${kept.toLocaleString("en")} of ${shown.toLocaleString("en")} pairs kept (${share.toFixed(1)}%)`;
  element("kept-bar").style.width = `${share}%`;
  if (count.first === undefined) count.first = kept;
  const corpus = element("corpus").value;
  const change = kept - count.first;
  element("change").textContent = corpus === "" && change ? `${change > 0 ? "+" : ""}${change.toLocaleString("en")} against the recipe` : "";
  element("lines").textContent = lines();
}

function show(dropped) {
  const beyond = [], near = [];
  for (let pair = 0; pair < pairs; pair++) {
    if (!isShown(pair) || data.fault[pair] !== null) continue;
    const far = chosen.sides.length ? excess(chosen, pair) : null;
    if (dropped[pair]) beyond.push([far, pair]);
    else if (far !== null) near.push([far, pair]);
  }
  if (chosen.sides.length) beyond.sort((a, b) => a[0] - b[0]);
  near.sort((a, b) => b[0] - a[0]);
  element("reason").textContent = chosen.reason;
  element("remedy").textContent = `Option: ${chosen.remedy}${chosen.now.on ? "" : " (off)"}`;
  const order = chosen.sides.length ? ", nearest to the threshold first" : "";
  element("dropped-title").textContent = `${chosen.now.on ? "Dropped" : "Would be dropped"}: ${beyond.length.toLocaleString("en")}${order}`;
  fill("dropped", beyond);
  element("spared-title").textContent = near.length ? "Just kept by this filter" : "";
  fill("spared", near.slice(0, SHOWN / 2));
}

function fill(id, found) {
  const table = element(id);
  table.replaceChildren();
  if (!found.length) return;
  const head = table.appendChild(make("tr"));
  ["", data.languages[0], data.languages[1]].forEach((text) => head.append(make("th", text)));
  for (const [, pair] of found.slice(0, SHOWN)) {
    const row = table.appendChild(make("tr"));
    const place = row.appendChild(make("td", `${data.corpora[data.corpus[pair]]}:${data.line[pair]}`));
    place.append(make("span", measure(pair), { className: "value" }));
    row.append(make("td", data.source[pair], { lang: data.languages[0], dir: "auto" }));
    row.append(make("td", data.target[pair], { lang: data.languages[1], dir: "auto" }));
  }
}

function measure(pair) {
  if (!chosen.sides.length) return chosen.value.get(pair) || "";
  return chosen.sides.map((side) => chosen.measures[side][pair]).map((value) => (value === null ? "–" : value)).join(" | ");
}

function lines() {
  const changed = [];
  for (const filter of data.filters) {
    const before = filter.recipe, now = filter.now;
    if (before.on !== now.on) changed.push(...switched(filter));
    if (!filter.now.on || !moved(filter)) continue;
    const values = filter.sides.map((side) => now.limits[side]);
    if (filter.sides[0] === "pair" || values.every((value) => value === values[0])) changed.push([filter.option, values[0]]);
    else filter.sides.forEach((side) => {
      if (now.limits[side] !== before.limits[side]) changed.push([`${side}_${filter.option}`, now.limits[side]]);
    });
  }
  return changed.length ? "clean:\n" + changed.map(([option, value]) => `  ${option}: ${value}`).join("\n") : "# nothing has changed";
}

// What switches a filter off, or on with the threshold that the page shows.
const OFF = {
  min_words: 1, max_words: 1000000, min_characters: 1, max_characters: 1000000, max_word_characters: 1000,
  max_length_ratio: 1000000, min_letter_share: 0, min_script_share: 0, max_copied_share: 1,
  max_repeated_characters: 0, max_repeated_words: 0,
};
function switched(filter) {
  const option = filter.option || filter.remedy.replace("clean.", "");
  if (option === "min_language_probability") return [[option, filter.now.on ? 0.2 : 0]];
  if (option.endsWith("_word_list")) return [[option, '""']];
  if (!filter.option) return /^[a-z_]+$/.test(option) ? [[option, filter.now.on]] : [];
  if (!filter.now.on) return [[option, OFF[option]]];
  return moved(filter) ? [] : [[option, filter.now.limits[filter.sides[0]]]];
}

// The range of a slider: from the smallest to the largest measure, without the farthest two in a hundred.
function rangeOf(filter, side) {
  const values = filter.measures[side].filter((value) => value !== null).sort((a, b) => a - b);
  const limit = filter.recipe.limits[side];
  if (filter.option.endsWith("_share")) return [0, 1, 0.01];
  const low = filter.minimum ? 0 : Math.min(1, limit);
  const high = Math.max(2 * limit, values.length ? values[Math.floor(0.98 * (values.length - 1))] : 0, 10);
  const whole = filter.option !== "max_length_ratio";
  return [low, whole ? Math.ceil(high) : Math.ceil(10 * high) / 10, whole ? 1 : 0.1];
}

function build() {
  data.corpora.forEach((name, number) => element("corpus").append(make("option", name, { value: number })));
  for (const filter of data.filters) {
    const row = element("filters").appendChild(make("tr"));
    const name = row.appendChild(make("td"));
    if (!filter.always && !/\d/.test(filter.remedy) && filter.remedy !== "clean.filters") {
      const box = name.appendChild(make("input", undefined, { type: "checkbox", checked: filter.now.on, ariaLabel: `apply ${filter.reason}` }));
      box.addEventListener("change", () => { filter.now.on = box.checked; choose(filter); });
      filter.box = box;
    }
    const button = name.appendChild(make("button", filter.reason, { type: "button", className: "name" }));
    button.addEventListener("click", () => choose(filter));
    const cell = row.appendChild(make("td"));
    filter.inputs = filter.sides.map((side) => control(filter, side, cell));
    filter.cells = [row.appendChild(make("td")), row.appendChild(make("td"))];
    filter.row = row;
  }
}

function control(filter, side, cell) {
  const line = cell.appendChild(make("div", undefined, { className: "limit" }));
  line.append(make("span", side === "pair" ? "" : side));
  const [min, max, step] = rangeOf(filter, side);
  const label = `${filter.option}, ${side}`;
  const slider = line.appendChild(make("input", undefined, { type: "range", min, max, step, ariaLabel: label }));
  const number = line.appendChild(make("input", undefined, { type: "number", min, step: "any", ariaLabel: label }));
  const set = (value) => { slider.value = number.value = value; };
  set(filter.now.limits[side]);
  for (const input of [slider, number]) input.addEventListener("input", () => {
    if (input.value === "") return;
    filter.now.limits[side] = Number(input.value);
    (input === slider ? number : slider).value = input.value;
    choose(filter);
  });
  return () => set(filter.now.limits[side]);
}

function choose(filter) {
  chosen = filter;
  count();
}

element("corpus").addEventListener("change", count);
element("reset").addEventListener("click", () => {
  for (const filter of data.filters) {
    filter.now.on = filter.recipe.on;
    Object.assign(filter.now.limits, filter.recipe.limits);
    filter.inputs.forEach((renew) => renew());
    if (filter.box) filter.box.checked = filter.now.on;
  }
  count();
});
element("copy").addEventListener("click", () => {
  const range = document.createRange();
  range.selectNodeContents(element("lines"));
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  const done = document.execCommand("copy");
  element("copied").textContent = done ? "Copied." : "Selected: press Ctrl-C.";
});
build();
count();
