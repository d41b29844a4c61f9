"use strict";
// The page of `lamina serve`: a photograph goes to the server, maps come back as f32 and are drawn here.

const $ = id => document.getElementById(id);
const state = { models: [], bitmap: null, blob: null, maps: null, shape: null, info: null, filters: null,
                shown: -1, pinned: -1, place: null, run: 0 };

async function ask(path, options = {}) {
  let response;
  try { response = await fetch(path, options); } catch { throw new Error("The server does not answer."); }
  if (response.ok) return response;
  let message = response.statusText;
  try { message = (await response.json()).error; } catch {}
  throw new Error(message);
}

function say(text, error = false) {
  $("status").textContent = text;
  $("status").classList.toggle("error", error);
}

const query = (path, parameters) => path + "?" + new URLSearchParams(parameters);
const fixed = (x, digits) => Number.isFinite(x) ? x.toFixed(digits) : "–";

const mapOf = i => { const [, h, w] = state.shape; return state.maps.subarray(i * h * w, (i + 1) * h * w); };

// Where the network looks: the crop, in pixels of the photograph, and the same on a map.
function placeOnMap() {
  if (!state.place || !state.info) return -1;
  const [x, y, cw, ch] = state.info.photo.crop, [, h, w] = state.shape;
  const u = (state.place.x - x) / cw, v = (state.place.y - y) / ch;
  if (u < 0 || u >= 1 || v < 0 || v >= 1) return -1;
  return Math.floor(v * h) * w + Math.floor(u * w);
}

function drawPhoto() {
  const canvas = $("photo"), bitmap = state.bitmap, scale = Math.min(1, 1400 / Math.max(bitmap.width, bitmap.height));
  canvas.width = Math.round(bitmap.width * scale); canvas.height = Math.round(bitmap.height * scale);
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  drawOverlay();
}

function drawOverlay() {
  const canvas = $("overlay"), under = $("photo"), context = canvas.getContext("2d");
  canvas.width = under.width; canvas.height = under.height;
  if (!state.info) return;
  const scale = under.width / state.info.photo.width;
  const [x, y, w, h] = state.info.photo.crop.map(v => v * scale);
  context.fillStyle = "rgb(0 0 0 / .45)";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.clearRect(x, y, w, h);
  const index = state.shown;
  if (index >= 0 && state.maps) {
    const small = document.createElement("canvas");
    drawMap(small, mapOf(index), state.shape[1], state.shape[2], true);
    context.imageSmoothingEnabled = true;
    context.drawImage(small, x, y, w, h);
  }
  context.strokeStyle = "#fff"; context.lineWidth = Math.max(1.5, canvas.width / 400);
  context.strokeRect(x, y, w, h);
  const ring = $("place");
  ring.hidden = !state.place;
  if (state.place) {
    ring.style.left = 100 * state.place.x / state.info.photo.width + "%";
    ring.style.top = 100 * state.place.y / state.info.photo.height + "%";
  }
}

function show(index) {
  state.shown = index;
  drawOverlay();
  const detail = $("detail");
  detail.replaceChildren();
  if (index < 0) return;
  const values = mapOf(index);
  let sum = 0, largest = -Infinity, zero = 0;
  for (const v of values) { sum += v; largest = Math.max(largest, v); if (v <= 0) ++zero; }
  if (state.filters) { const c = element("canvas"); drawFilter(c, index, state.filters); detail.append(c); }
  const map = element("canvas");
  drawMap(map, values, state.shape[1], state.shape[2]);
  detail.append(map);
  const at = placeOnMap();
  detail.append(element("p", `${state.filters ? "Filter" : "Map"} ${index}: mean ${fixed(sum / values.length, 3)}, largest ` +
    `${fixed(largest, 2)}, silent in ${Math.round(100 * zero / values.length)} % of the places` +
    (at >= 0 ? `; at the marked place ${fixed(values[at], 2)}.` : ".")));
}

function drawMaps() {
  const [count, h, w] = state.shape, how = $("sort").value, at = placeOnMap();
  const strength = [];
  for (let i = 0; i < count; ++i) {
    const values = mapOf(i);
    let sum = 0;
    for (const v of values) sum += v;
    strength.push(how === "place" && at >= 0 ? values[at] : sum / values.length);
  }
  const order = [...strength.keys()];
  if (how !== "number") order.sort((a, b) => strength[b] - strength[a] || a - b);
  const list = document.createDocumentFragment();
  for (const i of order) {
    const item = element("li"), button = element("button");
    button.type = "button"; button.dataset.map = i;
    button.setAttribute("aria-pressed", i === state.pinned);
    button.setAttribute("aria-label", `${state.filters ? "Filter" : "Map"} ${i}, mean ${fixed(strength[i], 2)}`);
    if (state.filters) { const f = element("canvas"); drawFilter(f, i, state.filters); button.append(f); }
    const map = element("canvas", "", "map");
    drawMap(map, mapOf(i), h, w);
    const label = element("span");
    label.append(element("b", String(i)), element("span", fixed(strength[i], 2)));
    button.append(map, label);
    item.append(button);
    list.append(item);
  }
  $("maps").replaceChildren(list);
  const noun = state.filters ? `${count} filters (above) and their maps (below)` : `${count} maps`;
  $("summary").textContent = `${noun} of ${h} × ${w}, each from its own darkest to its brightest value. The number is ` +
    (how === "place" && at >= 0 ? "the answer at the marked place." : "the map's mean.");
}

async function classify(run) {
  const model = state.models.find(m => m.classes && m.photographs);
  $("classes").hidden = true;
  if (!model) return;
  const chosen = state.models.find(m => m.name === $("model").value);
  const name = chosen && chosen.classes && chosen.photographs ? chosen.name : model.name;
  const answer = await (await ask(query("/classify", { model: name, top: 5 }), { method: "POST", body: state.blob })).json();
  if (run !== state.run) return;
  $("classes").hidden = false;
  $("classes").querySelector("h2").textContent = `What the model “${name}” takes it for`;
  $("doubt").textContent = answer.doubt ? answer.doubt[0].toUpperCase() + answer.doubt.slice(1) + "." : "";
  bars($("bars"), answer.classes.map(c => ({ name: c.name, value: c.probability })), v => (100 * v).toFixed(1) + " %");
}

const kept = new Map();
async function filtersOf(model, layer) {
  const key = JSON.stringify([model, layer]);
  if (!kept.has(key)) {
    const reply = await ask(query("/filters", { model, layer }));
    kept.set(key, { shape: JSON.parse(reply.headers.get("Lamina-Description")).shape,
                    data: new Float32Array(await reply.arrayBuffer()) });
  }
  return kept.get(key);
}

// Before there is a photograph: the patterns that will be looked for.
async function showPatterns() {
  const model = state.models.find(m => m.layers.some(l => l.name === m.layer && l.filters));
  if (!model) return;
  const filters = await filtersOf(model.name, model.layer), [count, , h, w] = filters.shape;
  $("before").querySelector("h2").textContent = `The ${count} patterns of ${h} × ${w} pixels that ${model.name} looks for`;
  $("before").querySelector("div").replaceChildren(...Array.from({ length: count }, (_, i) => {
    const canvas = element("canvas");
    drawFilter(canvas, i, filters);
    return canvas;
  }));
  $("before").hidden = Boolean(state.blob);
}

async function update() {
  if (!state.blob) return;
  const run = ++state.run, model = $("model").value, layer = $("layer").value;
  say("Looking…");
  try {
    const start = performance.now();
    const response = await ask(query("/features", { model, layer }),
      { method: "POST", body: state.blob, headers: { Accept: "application/octet-stream" } });
    const info = JSON.parse(response.headers.get("Lamina-Description"));
    const maps = new Float32Array(await response.arrayBuffer());
    const there = performance.now() - start;
    const known = state.models.find(m => m.name === model).layers.find(l => l.name === info.layer);
    const filters = known && known.filters ? await filtersOf(model, layer) : null;
    if (run !== state.run) return;
    Object.assign(state, { maps, info, filters, shape: info.shape, shown: -1, pinned: -1 });
    document.body.classList.remove("empty");
    $("see").hidden = false;
    drawPhoto();
    drawMaps();
    show(-1);
    const ms = info.milliseconds, known_ms = ms.decode + ms.preprocess + ms.wait + ms.run;
    bars($("times"), [
      { name: "decode", value: ms.decode }, { name: "crop and normalise", value: ms.preprocess },
      { name: "wait for others", value: ms.wait }, { name: `${info.layer} on ${info.device}`, value: ms.run },
      { name: "way there and back", value: Math.max(0, there - known_ms) },
      { name: "draw", value: performance.now() - start - there },
    ], v => v.toFixed(2));
    say("");
    document.body.dataset.ready = info.layer;
    await classify(run);
    if ($("steps").open) await profile();
  } catch (error) {
    if (run === state.run) say(error.message, true);
  }
}

async function profile() {
  const devices = await (await ask(query("/profile", { model: $("model").value }))).json();
  const rows = [];
  for (const step of devices[0].steps) {
    for (const [i, device] of devices.entries()) {
      const same = device.steps.find(s => s.name === step.name);
      if (same) rows.push({ name: `${step.name}${devices.length > 1 ? " " + device.device : ""}`, value: same.ms, second: i > 0, title: `${same.fused} ${same.kernel}` });
    }
  }
  bars($("profile"), rows, v => v.toFixed(3));
}

async function take(blob) {
  if (!blob) return;
  try {
    state.bitmap = await createImageBitmap(blob, { imageOrientation: "from-image" }).catch(async () => {
      say("This browser does not know the format; asking the server…");  // which reads HEIC, TIFF and more
      return createImageBitmap(await (await ask("/picture", { method: "POST", body: blob })).blob());
    });
  } catch (error) {
    return say(error.message, true);
  }
  Object.assign(state, { blob, info: null, maps: null, place: null });
  $("before").hidden = true;
  await update();
}

function fillLayers() {
  const model = state.models.find(m => m.name === $("model").value);
  $("layer").replaceChildren(...model.layers.map(l => {
    const option = element("option", `${l.name} (${l.op}, ${l.shape.join(" × ")})`);
    option.value = l.name;
    return option;
  }));
  $("layer").value = model.layer;
}

async function start() {
  document.body.classList.add("empty");
  for (let tries = 0; ; ++tries) {
    try { state.models = await (await ask("/models")).json(); break; } catch (error) {
      say(error.message, true);
      if (tries > 100) return;
      await new Promise(done => setTimeout(done, 300));
    }
  }
  say("");
  $("model").replaceChildren(...state.models.filter(m => m.photographs && m.layers.length)
    .map(m => { const o = element("option", m.name); o.value = m.name; return o; }));
  if ($("model").value) fillLayers();
  showPatterns().catch(e => say(e.message, true));

  $("file").addEventListener("change", e => take(e.target.files[0]));
  $("example").addEventListener("click", () => example(take));
  document.addEventListener("paste", e => take([...e.clipboardData.files][0]));
  for (const name of ["dragenter", "dragover"]) document.addEventListener(name, e => { e.preventDefault(); document.body.classList.add("over"); });
  for (const name of ["dragleave", "drop"]) document.addEventListener(name, e => { e.preventDefault(); document.body.classList.remove("over"); });
  document.addEventListener("drop", e => take(e.dataTransfer.files[0]));
  $("model").addEventListener("change", () => { fillLayers(); update(); });
  $("layer").addEventListener("change", update);
  $("sort").addEventListener("change", () => state.maps && drawMaps());
  $("steps").addEventListener("toggle", () => $("steps").open && profile().catch(e => say(e.message, true)));

  const mapAt = e => { const b = e.target.closest("button[data-map]"); return b ? Number(b.dataset.map) : -1; };
  for (const name of ["pointerover", "focusin"]) $("maps").addEventListener(name, e => { const i = mapAt(e); if (i >= 0 && i !== state.shown) show(i); });
  $("maps").addEventListener("pointerleave", () => show(state.pinned));
  $("maps").addEventListener("click", e => {
    const i = mapAt(e);
    if (i < 0) return;
    state.pinned = state.pinned === i ? -1 : i;
    for (const b of $("maps").querySelectorAll("button")) b.setAttribute("aria-pressed", Number(b.dataset.map) === state.pinned);
    show(i);
  });
  const mark = (x, y) => {
    const { width, height } = state.info.photo;
    state.place = { x: Math.max(0, Math.min(width - 1, x)), y: Math.max(0, Math.min(height - 1, y)) };
    if (placeOnMap() < 0) return show(state.shown);
    $("sort").value = "place";
    drawMaps();
    show(Number($("maps").querySelector("button").dataset.map));
  };
  $("stage").addEventListener("click", e => {
    if (!state.info) return;
    const box = $("photo").getBoundingClientRect(), { width, height } = state.info.photo;
    mark((e.clientX - box.left) / box.width * width, (e.clientY - box.top) / box.height * height);
  });
  $("stage").addEventListener("keydown", e => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    if (!step || !state.info) return;
    e.preventDefault();
    const [x, y, w, h] = state.info.photo.crop, at = state.place || { x: x + w / 2, y: y + h / 2 };
    mark(at.x + step[0] * w / 40, at.y + step[1] * h / 40);
  });
}

start();
