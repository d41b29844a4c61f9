"use strict";
// The page of `lamina serve`: photographs go to the server, answers and maps come back and are drawn here.

const $ = id => document.getElementById(id);
const state = { models: [], photos: [], at: 0, example: null, failed: "", maps: null, shape: null, info: null, layer: null, sides: [0, 0], filters: null, colours: false, source: null, sourceScales: [], via: null,
                input: null, seen: null, scales: [], peaks: [], shown: 0, pinned: 0, place: null, kept: null, drawn: -1, known: Infinity, run: 0 };

async function ask(path, options = {}) {
  let response;
  try { response = await fetch(path, options); } catch { throw new Error("The server does not answer."); }
  if (response.ok) return response;
  let message = response.statusText;
  try { message = (await response.json()).error; } catch {}
  throw Object.assign(new Error(message), { status: response.status });
}

function say(text, error = false) {
  $("status").textContent = text;
  $("status").className = error ? "error" : "";
}

const query = (path, parameters) => path + "?" + new URLSearchParams(parameters);
const described = async reply => ({ ...JSON.parse(reply.headers.get("Lamina-Description")), data: new Float32Array(await reply.arrayBuffer()) });
const mapOf = i => { const [, h, w] = state.shape; return state.maps.subarray(i * h * w, (i + 1) * h * w); };
const byName = name => state.models.find(m => m.name === name);

// What the network sees, pixel by pixel.
function drawPhoto() {
  const [, h, w] = state.shape, { photo: { width, height, crop } } = state.info;
  copyTo($("photo"), state.seen);
  $("seen").textContent = crop[2] * crop[3] < 0.75 * width * height ? "The middle of the photograph: that is what the network sees" : "The photograph, as the network sees it";
  if ($("lay").checked) drawLight($("photo"), mapOf(state.shown), h, w, state.scales[state.shown]);
}

function show(index) {
  if (lesson) stopLesson();
  Object.assign(state, { shown: index, most: null, via: null });
  showFilter(index);
  if ($("lay").checked) drawPhoto();
  showWindow();
  showText();
}

// Where the pointer is, or, `kept`, where the window stays: the clicked place.
function goTo(place, kept = true) {
  if (lesson) stopLesson();
  const [, h, w] = state.shape;
  state.place = { row: Math.max(0, Math.min(h - 1, place.row)), column: Math.max(0, Math.min(w - 1, place.column)) };
  showWindow();
  if (!kept) return;
  state.kept = state.place;
  keepInAddress();
  if ($("sort").value === "place") drawMaps();
}

function drawMaps() {
  const [count, h, w] = state.shape, how = $("sort").value, at = state.kept.row * w + state.kept.column;
  const strength = Array.from({ length: count }, (_, i) => {
    const values = mapOf(i);
    return how === "place" ? values[at] : values.reduce((a, b) => a + b, 0) / values.length;
  });
  const order = [...strength.keys()];
  if (how !== "number") order.sort((a, b) => strength[b] - strength[a] || a - b);
  const focused = $("maps").contains(document.activeElement);
  $("maps").replaceChildren(...order.map(i => {
    const button = element("button"), map = element("canvas", "", "map"), label = element("span");
    button.type = "button"; button.dataset.map = i;
    button.setAttribute("role", "radio");
    button.setAttribute("aria-label", `${state.colours ? "Filter" : "Map"} ${i}, ${how === "place" ? "at the clicked place" : "on average"} ${two(strength[i])}`);
    if (state.colours) { const f = element("canvas"); drawFilter(f, i, state.filters); button.append(f); }
    drawMap(map, mapOf(i), h, w, state.scales[i], Infinity, 128);
    label.append(element("b", String(i)), element("span", two(strength[i])));
    button.append(map, label);
    return button;
  }));
  pin(state.pinned, focused);
  $("title").textContent = state.colours ? `The ${count} patterns, and the map of each` : `The ${count} maps of this layer`;
  $("summary").textContent = (h * w > 1 ? `Each map has ${h} × ${w} numbers, one for each place of the window, drawn from its own darkest to its brightest. ` : "Each map is one number. ") +
    `${state.maps.some(v => v < 0) ? "Blue is below zero. " : ""}The number below: its answer ${how === "place" ? "at the clicked place" : "on average"}.`;
}

function pin(index, focus = false) {
  state.pinned = index;
  for (const b of $("maps").children) {
    const mine = Number(b.dataset.map) === index;
    b.setAttribute("aria-checked", mine);
    b.tabIndex = mine ? 0 : -1;
    if (mine && focus) b.focus({ preventScroll: true });
  }
}

function choose(index, { focus = false, push = false } = {}) {
  pin(index, focus);
  show(index);
  keepInAddress(push);
}

async function update(wanted = {}) {
  const photo = state.photos[state.at], model = $("model").value, { layers, photographs, sides } = byName(model) || {};
  if (!photo || !model) return;
  const run = ++state.run, layer = $("layer").value, known = layers.find(l => l.name === layer), answered = answer();
  state.example = photo.example;
  for (const b of $("examples").children) b.setAttribute("aria-pressed", b.dataset.photo === photo.example);
  $("layers").hidden = $("lead").hidden = !(photographs && known);
  if ($("layers").hidden) {
    $("see").hidden = true;
    keepInAddress(wanted.push);
    state.failed ||= lost(wanted);
    await answered;
    return ready(run, model);
  }
  if (state.failed === "") say("Looking…");
  try {
    const start = performance.now();
    const mapsOf = async layer => described(await post(photo, query("/features", { model, layer }), true));
    const { data: maps, ...info } = await mapsOf(layer), there = performance.now() - start, colours = known.filters;
    const before = !colours && layers.find(l => l.name === known.made?.from);
    const [filters, { input, canvas: seen }, deeper] = await Promise.all([colours ? filtersOf(model, layer) : null, seenBy(model, photo), before ? mapsOf(before.name) : null]);
    if (run !== state.run) return;
    const looked = { ...known, made: colours || before ? known.made : undefined };
    Object.assign(state, { maps, info, filters, input, seen, colours, source: colours ? input : deeper, sourceScales: [], via: null, layer: looked, sides, shape: info.shape, drawn: -1, most: null });
    for (const id of ["photo", "map"]) $(id).closest(".screen").style.aspectRatio = `${sides[1]} / ${sides[0]}`;
    measure();
    // The filter that was asked for; else the one that was there; else the one that answers the most.
    const [count, h, w] = state.shape, has = i => i >= 0 && i < count;
    const strongest = state.peaks.reduce((a, p, i) => p.value > state.peaks[a].value ? i : a, 0);
    state.pinned = state.shown = has(wanted.filter) ? wanted.filter : wanted.stay && has(state.pinned) ? state.pinned : strongest;
    state.failed ||= lost(wanted, info.shape);
    const place = wanted.place;
    state.place = state.kept = place && place.row < h && place.column < w ? place : state.peaks[state.shown];
    $("see").hidden = false;
    drawPhoto();
    drawMaps();
    show(state.shown);
    keepInAddress(wanted.push);
    const ms = info.milliseconds, known_ms = ms.decode + ms.preprocess + ms.wait + ms.run;
    bars($("times"), [
      { name: "decode", value: ms.decode }, { name: "crop and normalise", value: ms.preprocess },
      { name: "wait for others", value: ms.wait }, { name: `${info.layer} on ${info.device}`, value: ms.run },
      { name: "way there and back", value: Math.max(0, there - known_ms) },
      { name: "draw", value: performance.now() - start - there },
    ], v => v.toFixed(2) + " ms");
    await answered;
    ready(run, info.layer);
    if ($("steps").open) await profile();
  } catch (error) {
    if (run === state.run) say(error.message, true);
  }
}

function ready(run, what) {
  if (run !== state.run) return;
  if ($("status").className !== "error") say(state.failed, state.failed !== "");
  document.body.dataset.ready = what;
}

async function profile() {
  const devices = await (await ask(query("/profile", { model: $("model").value }))).json(), rows = [];
  for (const step of devices[0].steps) {
    for (const [i, device] of devices.entries()) {
      const same = device.steps.find(s => s.name === step.name);
      if (same) rows.push({ name: `${step.name}${devices.length > 1 ? " " + device.device : ""}`, value: same.ms, second: i > 0, title: `${same.fused} ${same.kernel}` });
    }
  }
  bars($("profile"), rows, v => v.toFixed(3) + " ms");
}

function fillLayers(layer) {
  const model = byName($("model").value);
  $("layer").replaceChildren(...model.layers.map(l => {
    const option = element("option", `${l.name} (${l.op}, ${l.shape.join(" × ")})`);
    option.value = l.name;
    return option;
  }));
  $("layer").value = model.layers.some(l => l.name === layer) ? layer : model.layer;
}

// What the address and Back ask for, as far as it is there; otherwise the cat.
async function open(first) {
  const wanted = fromAddress(), usable = [...$("model").options].map(o => o.value);
  if (!usable.length) return say("None of the models that are served can be shown here.", true);
  $("model").value = usable.includes(wanted.model) ? wanted.model : usable[0];
  fillLayers(wanted.layer);
  const set = album[history.state?.set], examples = [...$("examples").children].map(b => b.dataset.photo);
  if (set) return showPhotos(set, history.state.at, wanted);
  if (!first && !examples.includes(wanted.photo)) return update(wanted);
  const plain = !wanted.model && !wanted.layer && wanted.filter < 0;
  if (plain && $("model").value === "alexnet-conv1") wanted.filter = 54;  // the cat's eyes from below
  await takeExample(examples.includes(wanted.photo) ? wanted.photo : "cat", wanted);
}

async function start() {
  for (let tries = 0; ; ++tries) {
    try { state.models = await (await ask("/models")).json(); break; } catch (error) {
      say(error.message, true);
      if (tries > 100) return;
      await new Promise(done => setTimeout(done, 300));
    }
  }
  say("");
  const isShown = m => m.answers || (m.photographs && m.layers.length), shown = state.models.filter(isShown);
  $("model").replaceChildren(...shown.map(m => { const o = element("option", m.name); o.value = m.name; return o; }));
  $("which").hidden = shown.length < 2;
  $("without").textContent = notShown(state.models.filter(m => !isShown(m)));
  listen();
  await open(true);
}

function listen() {
  const on = (target, names, does) => { for (const name of names.split(" ")) target.addEventListener(name, does); };
  on($("file"), "change", e => { take([...e.target.files]); });
  on($("examples"), "click", e => { const b = e.target.closest("button"); if (b) takeExample(b.dataset.photo, { stay: true, push: true }); });
  on(document, "paste", e => take([...e.clipboardData.files]));
  on(document, "dragenter dragover", e => { e.preventDefault(); document.body.classList.add("over"); });
  on(document, "dragleave drop", e => { e.preventDefault(); document.body.classList.remove("over"); });
  on(document, "drop", e => take([...e.dataTransfer.files]));
  // What stays in view while the filters scroll by: its lower end, where it is higher than the screen.
  const stay = () => { $("left").style.top = Math.min(10, innerHeight - $("left").offsetHeight - 10) + "px"; };
  new ResizeObserver(stay).observe($("left"));
  on(window, "resize", stay);
  on(window, "popstate", () => { say(state.failed = ""); open(false); });
  const change = () => { state.failed = ""; return update({ push: true }); };
  on($("model"), "change", () => { fillLayers(); change(); });
  on($("layer"), "change", change);
  on($("sort"), "change", () => state.maps && drawMaps());
  on($("confidence"), "input", e => { e.target.nextElementSibling.value = `${Math.round(100 * e.target.value)} %`; });
  on($("confidence"), "change", () => answer());
  on($("steps"), "toggle", () => $("steps").open && profile().catch(e => say(e.message, true)));
  on($("lay"), "change", drawPhoto);
  on($("parts"), "click", e => {
    const b = e.target.closest("button");
    if (!b) return;
    state.via = Number(b.dataset.via);
    showWindow();
    $("parts").querySelector(`[data-via="${state.via}"]`)?.focus();
  });
  on($("save"), "click", savePicture);
  on($("link"), "click", copyLink);
  on($("play"), "click", () => lesson > 0 ? pauseLesson() : playLesson());

  const within = (e, target) => { const b = target.getBoundingClientRect(); return [(e.clientX - b.left) / b.width, (e.clientY - b.top) / b.height]; };
  // The window follows the pointer and stays where one clicks: a mouse that leaves brings it back there, a finger leaves it where it is.
  const point = (target, placeOf) => {
    on(target, "pointermove pointerdown click", e => state.maps && !(lesson && e.type === "pointermove") && goTo(placeOf(...within(e, target)), e.type === "click"));
    on(target, "pointerleave", ({ pointerType }) => state.maps && !lesson && (pointerType === "mouse" ? goTo(state.kept, false) : goTo(state.place)));
  };
  point($("stage"), placeAt);
  point($("map"), (u, v) => ({ row: Math.floor(v * state.shape[1]), column: Math.floor(u * state.shape[2]) }));
  on($("explain"), "pointermove", e => e.target.tagName === "CANVAS" && state.layer?.made && (state.filters || state.layer.made.how !== "sum") && !lesson && showPixel(...within(e, e.target)));
  on($("explain"), "pointerout", e => e.target.tagName === "CANVAS" && state.maps && !lesson && showWindow());
  on(document, "keydown", e => e.key === "Escape" && lesson && stopLesson());
  // Keys are the photograph's while it is in view, wherever the focus is, but for what takes keys itself.
  on(document, "keydown", e => {
    const { top, bottom } = $("stage").getBoundingClientRect(), seen = bottom > 0 && top < innerHeight;
    if (!state.maps || !seen || e.defaultPrevented || e.altKey || e.ctrlKey || e.metaKey || e.target.closest?.("input, select, textarea")) return;
    const [count] = state.shape, step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key], turn = { PageUp: -1, PageDown: 1 }[e.key];
    if (step) goTo({ row: state.place.row + step[0], column: state.place.column + step[1] });
    else if (turn) choose((state.pinned + turn + count) % count);
    else if (e.key === "Home") goTo(state.peaks[state.shown]);
    else return;
    e.preventDefault();
  });
  const mapAt = e => { const b = e.target.closest("button[data-map]"); return b ? Number(b.dataset.map) : -1; };
  on($("maps"), "pointerover", e => { const i = mapAt(e); if (e.pointerType === "mouse" && i >= 0 && i !== state.shown) show(i); });
  on($("maps"), "pointerleave", () => state.shown !== state.pinned && show(state.pinned));
  on($("maps"), "click", e => { const i = mapAt(e); if (i >= 0) choose(i, { focus: true, push: true }); });
  // The arrow keys, by rows where things stand in rows.
  const roam = (grid, reached) => on(grid, "keydown", e => {
    const all = [...grid.querySelectorAll("button")], at = all.indexOf(e.target.closest("button"));
    const columns = all.filter(b => b.getBoundingClientRect().top === all[0].getBoundingClientRect().top).length;
    const next = all[{ ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - columns, ArrowDown: at + columns, Home: 0, End: all.length - 1 }[e.key]];
    if (at < 0 || !/^(Arrow|Home|End)/.test(e.key)) return;
    e.preventDefault();
    if (!next) return;
    reached(next);
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  });
  roam($("maps"), b => choose(Number(b.dataset.map)));
  for (const grid of [$("best"), $("cards"), $("examples"), $("parts")]) roam(grid, () => {});
}

start();
