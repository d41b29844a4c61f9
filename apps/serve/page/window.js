"use strict";
// The window under the pointer: the pixels, the filter, their products, and the one number that they add up to.

const kept = new Map();
function filtersOf(model, layer, filter = null) {
  const path = query("/filters", { model, layer, ...(filter !== null && { filter }) });
  if (!kept.has(path)) {
    kept.set(path, ask(path).then(described));
    kept.get(path).catch(() => kept.delete(path));
  }
  return kept.get(path);
}

// Of deeper layers each filter is fetched when it is looked at.
async function showFilter(index) {
  const { layer, colours, info: { model } } = state;
  if (colours || layer.made?.how !== "sum") return;
  state.filters = null;
  try {
    const filters = await filtersOf(model, layer.name, index);
    if (state.layer !== layer || state.shown !== index) return;
    state.filters = filters;
    showWindow();
    showText();
  } catch (error) { say(error.message, true); }
}

// How the places of the map lie on what the network sees, in its pixels. Without a known field: each its own share.
function fieldOf() {
  const [, h, w] = state.shape, [high, wide] = state.sides, field = state.layer.field;
  return field || { size: [high / h, wide / w], stride: [high / h, wide / w], start: [0, 0] };
}

// The window of a place as parts of what the network sees: [x, y, width, height].
function windowOf(row, column) {
  const { size, stride, start } = fieldOf(), [high, wide] = state.sides;
  return [(start[1] + column * stride[1]) / wide, (start[0] + row * stride[0]) / high, size[1] / wide, size[0] / high];
}

// The place whose window has its middle nearest to (u, v), each from 0 to 1.
function placeAt(u, v) {
  const { size, stride, start } = fieldOf(), [, h, w] = state.shape;
  const nearest = (t, axis, most) => Math.max(0, Math.min(most - 1, Math.round((t * state.sides[axis] - start[axis] - size[axis] / 2) / stride[axis])));
  return { row: nearest(v, 0, h), column: nearest(u, 1, w) };
}

// What the network makes its number of there: a window of each map before it, or of the photograph. Its own value is in
// the map: rounded to 32 bits at each step.
function windowsAt(index, { row, column }) {
  const { filters, source, layer: { made } } = state, [maps, high, wide] = source.shape;
  const one = made.how !== "sum", [, channels, kh, kw] = one ? [1, 1, ...made.size] : filters.shape, { stride, start, size } = made;
  const across = kw > 1 ? (size[1] - 1) / (kw - 1) : 1, down = kh > 1 ? (size[0] - 1) / (kh - 1) : 1;
  const first = one ? index : Math.floor(index / (state.shape[0] / (maps / channels))) * channels;  // of its group
  const from = filters && filters.shape[0] > 1 ? index : 0;
  return { kh, kw, bias: one ? 0 : filters.bias[from], windows: Array.from({ length: channels }, (_, c) => {
    const weights = one ? null : filters.data.subarray((from * channels + c) * kh * kw, (from * channels + c + 1) * kh * kw);
    const window = { map: first + c, values: new Float64Array(kh * kw), weights, products: new Float64Array(kh * kw), inside: [], sum: 0 };
    for (let p = 0; p < kh * kw; ++p) {
      const y = start[0] + row * stride[0] + Math.floor(p / kw) * down, x = start[1] + column * stride[1] + p % kw * across;
      window.inside[p] = y >= 0 && y < high && x >= 0 && x < wide;
      window.values[p] = window.inside[p] ? source.data[((first + c) * high + y) * wide + x] : 0;
      window.products[p] = one ? 0 : window.values[p] * weights[p];
      window.sum += window.products[p];
    }
    return window;
  }) };
}

// Of the photograph the three colours together.
function productsAt(index, place) {
  const { kh, kw, bias, windows } = windowsAt(index, place), products = new Float64Array(kh * kw);
  for (const window of windows) window.products.forEach((product, p) => { products[p] += product; });
  return { products, sum: products.reduce((a, b) => a + b, 0), bias, kh, kw, windows };
}

// The shortest digits that mean the same 32 bits.
function exactly(value) {
  for (let digits = 1; digits < 9; ++digits) if (Math.fround(value.toPrecision(digits)) === value) return String(Number(value.toPrecision(digits)));
  return String(Number(value.toPrecision(9)));
}

const two = value => value.toFixed(Math.abs(value) >= 100 ? 0 : 2).replace(/^-(?=.*[1-9])/, "−").replace("-", "");

// Rounded numbers, and the rest of the whole: it takes what rounding loses, so that what is shown adds up.
function addingUp(whole, parts) {
  const number = text => Number(text.replace("−", "-")), shown = parts.map(two);
  return [...shown, two(shown.reduce((rest, text) => rest - number(text), number(two(whole))))];
}

// `edge`: a part of what fits is the end of the photograph, which is in no photograph.
function wordsFor(value, best, edge) {
  const words = state.colours ? ["It fits very well here.", "It fits somewhat.", "It hardly fits.", "It does not fit here."]
    : ["It is very excited here.", "It is somewhat excited.", "It is hardly excited.", "It is silent here."];
  if (value < 0) return state.colours ? "The opposite of the pattern is here." : "It is held back here: below zero.";
  const level = value >= 0.66 * best && value > 0 ? 0 : value >= 0.33 * best && value > 0 ? 1 : value > 0 ? 2 : 3;
  return edge && level < 3 ? words[level].replace(".", ", where the photograph ends.") : words[level];
}

// Layers that are made of others without weights, of which the server names no window.
function madeWithout({ op }, [, h, w]) {
  if (/^add$/i.test(op)) return " It is the sum of the numbers of this place in the layers before it.";
  return /^(GlobalAveragePool|adaptive_avg_pool2d)$/.test(op) ? ` It is the mean of ${h * w === 1 ? "the whole" : "a part of the"} map before it.` : "";
}

// Places marks, canvases and words. `upto` pixels have been multiplied so far, `known` places of the map are there.
function showWindow({ upto = Infinity, known = Infinity, place = state.place } = {}) {
  const index = state.shown, [, h, w] = state.shape, values = mapOf(index), at = place.row * w + place.column;
  const put = (mark, [x, y, width, height]) => Object.assign(mark.style, { left: 100 * x + "%", top: 100 * y + "%", width: 100 * width + "%", height: 100 * height + "%" });
  const [x, y, wide, high] = windowOf(place.row, place.column), left = Math.max(0, x), top = Math.max(0, y);
  put($("frame"), state.colours ? [x, y, wide, high] : [left, top, Math.min(1, x + wide) - left, Math.min(1, y + high) - top]);
  put($("cell"), [place.column / w, place.row / h, 1 / w, 1 / h]);
  $("cell").hidden = upto < Infinity;
  if (known !== state.known || index !== state.drawn) drawMap($("map"), values, h, w, state.scales[index], known);
  Object.assign(state, { known, drawn: index });
  const value = values[at], best = state.peaks[index].value;
  $("number").value = two(value);
  $("number").dataset.value = exactly(value);
  $("words").textContent = wordsFor(value, best, state.colours && (x < 0 || y < 0 || x + wide > 1 || y + high > 1));
  $("exact").textContent = `Exactly ${exactly(value)}: the marked cell of the map, row ${place.row}, column ${place.column}.`;
  const { made } = state.layer, explained = Boolean(made);
  if (made?.how === "sum" && !state.filters) return;  // on its way
  $("kind").textContent = made?.how === "sum" ? "The filter’s answer:" : "Its number:";
  $("explain").className = !explained || made.how !== "sum" ? "deep" : "";
  $("parts").hidden = !explained || made.how !== "sum" || state.colours;
  if (!explained) $("words").textContent += madeWithout(state.layer, state.shape);
  if (!explained) return drawPart($("pixels"), state.seen, [x, y, wide, high], 192);
  if (made.how !== "sum") return showPooled(windowsAt(index, place), made);
  const { products, sum, bias, kh, kw, windows } = productsAt(index, place);
  if (windows[0].inside.includes(false)) $("exact").textContent += ` Grey is beyond the edge of the ${state.colours ? "photograph" : "map"}: there it counts 0.`;
  if (state.colours) showColours(windows, products, kh, kw, index, upto); else showParts(windows, kh, kw);
  if (upto < kh * kw) {
    $("number").value = two(products.subarray(0, upto + 1).reduce((a, b) => a + b, 0));
    $("words").textContent = `${upto + 1} of ${kh * kw} pixels…`;
    const below = state.colours && windows.some(w => w.values.some(v => v < 0));
    $("exact").textContent = below ? "A pixel counts from the average, so dark is below zero. Dark times dark adds, too: minus times minus is plus." : "";
    return;
  }
  const whole = two(sum), added = addingUp(sum + bias, [sum])[1], extra = Number(added) === 0 ? "" : added[0] === "−" ? `, minus ${added.slice(1)}, which the filter learned to take off everywhere` : `, and ${added}, which the filter learned to add everywhere`;
  if (made.then && !/relu/i.test(made.then)) {
    $("words").textContent += ` The sum is ${whole}${extra}, and ${made.then} makes ${two(value)} of it.`;
  } else if (value === 0 && sum + bias < 0) {
    $("words").textContent = `It does not fit here: the sum is ${whole}${extra}. What is below zero counts as 0.`;
  } else if (extra) {
    $("words").textContent += ` (${whole}${extra}.)`;
  }
}

const chosenOf = windows => windows.find(w => w.map === state.via) || windows.reduce((a, b) => Math.abs(b.sum) > Math.abs(a.sum) ? b : a);

// The numbers of the pixel at (u, v) of the window, each from 0 to 1.
function showPixel(u, v) {
  const { kh, kw, windows } = windowsAt(state.shown, state.place), row = Math.min(kh - 1, Math.floor(v * kh)), column = Math.min(kw - 1, Math.floor(u * kw));
  const p = row * kw + column, parts = state.colours ? windows : [chosenOf(windows)], three = value => value.toFixed(3).replace("-", "−");
  const numbers = parts.map((w, c) => `${parts.length > 1 ? ["red ", "green ", "blue "][c] : ""}${three(w.values[p])}${w.weights ? ` × ${three(w.weights[p])}` : ""}`);
  const sum = parts[0].weights ? `${parts.length > 1 ? ", together" : " ="} ${three(parts.reduce((total, w) => total + w.products[p], 0))}` : "";
  $("exact").textContent = `Row ${row}, column ${column} of the window: ${parts[0].inside[p] ? numbers.join(", ") + sum : "it is beyond the edge"}.`;
}

const drawProducts = (canvas, values, kw, kh, most, upto = Infinity) => paint(canvas, kw, kh, p => p > upto ? [150, 154, 162] : p === upto ? [255, 60, 160]
  : (values[p] < 0 ? differ : agree)[levelOf(values[p], most)]);

function showColours(windows, sums, kh, kw, index, upto) {
  const { input } = state, most = state.most ??= Math.max(...productsAt(index, state.peaks[index]).products.map(Math.abs));
  const level = (p, c) => (windows[c].values[p] * input.std[c] + input.mean[c]) * input.divisor;
  paint($("pixels"), kw, kh, p => p === upto ? [255, 60, 160] : windows[0].inside[p] ? [0, 1, 2].map(c => level(p, c)) : unknown);
  drawFilter($("pattern"), index, state.filters, upto);
  drawProducts($("products"), sums, kw, kh, most, upto);
}

// The colours of numbers that are a part of another map.
function drawWindow(canvas, { map, values, inside }, kw, kh) {
  const { data, shape: [, h, w] } = state.source, scale = state.sourceScales[map] ??= scaleOf(data.subarray(map * h * w, (map + 1) * h * w));
  paint(canvas, kw, kh, p => inside[p] ? (values[p] < 0 ? cold : warm)[levelOf(values[p], scale)] : unknown);
}

const captions = (...texts) => $("explain").querySelectorAll("figcaption").forEach((caption, i) => {
  if (texts[i]) caption.replaceChildren(element("b", texts[i][0]), " ", element("span", texts[i][1]));
});

// Deeper layers: the map before it that counts the most here, or the one that was chosen, and what each of them gives.
function showParts(windows, kh, kw) {
  const order = [...windows].sort((a, b) => Math.abs(b.sum) - Math.abs(a.sum)), chosen = chosenOf(windows);
  const { filters, layer: { made } } = state;
  drawWindow($("pixels"), chosen, kw, kh);
  drawProducts($("pattern"), chosen.weights, kw, kh, filters.data.reduce((a, b) => Math.max(a, Math.abs(b)), 0));
  drawProducts($("products"), chosen.products, kw, kh, Math.max(...chosen.products.map(Math.abs)));
  captions(["Map " + chosen.map, `of ${made.from}: ${kh} × ${kw} of its numbers`], ["The weights", `that filter ${state.shown} learned for it`],
    ["Number times number", `together ${two(chosen.sum)}; blue: below zero`]);
  const shown = order.slice(0, 6);
  if (!shown.includes(chosen)) shown.push(chosen);
  const others = order.length - shown.length, sums = addingUp(order.reduce((sum, w) => sum + w.sum, 0), shown.slice(0, others ? undefined : -1).map(w => w.sum));
  const signed = text => (/^[−0]/.test(text) && Number(text.replace("−", "-")) <= 0 ? "" : "+") + text;
  $("parts").querySelector("span").textContent = windows.length > 1 ? `Each of the ${windows.length} maps before it gives a part. The largest:` : "It has one map before it.";
  $("parts").querySelector("div").replaceChildren(...shown.map((part, i) => {
    const button = element("button", `${part.map}: ${signed(sums[i])}`);
    button.type = "button";
    button.setAttribute("aria-label", `Map ${part.map} gives ${sums[i]}`);
    button.setAttribute("aria-pressed", part === chosen);
    button.dataset.via = part.map;
    return button;
  }), ...(others ? [element("span", `the other ${others}: ${signed(sums[shown.length])}`)] : []));
}

// A pooling layer keeps the largest number of a window of the same map, or their mean.
function showPooled({ kh, kw, windows: [window] }, made) {
  drawWindow($("pixels"), window, kw, kh);
  captions(["Map " + window.map, `of ${made.from}: ${kh} × ${kw} of its numbers`]);
  $("words").textContent = `It is the ${made.how === "max" ? "largest" : "mean"} of these: ${[...window.values].filter((_, p) => window.inside[p]).slice(0, 16).map(two).join(", ")}${kh * kw > 16 ? " and more" : ""}. Nothing of it was learned.`;
}

function showText() {
  const [, h, w] = state.shape, index = state.shown, [size] = [fieldOf().size.map(Math.round)], values = mapOf(index);
  const name = state.colours ? `filter ${index}` : `map ${index}`;
  let some = 0, below = false;
  for (const v of values) {
    if (v > 0) ++some;
    if (v < 0) below = true;
  }
  $("little").hidden = !state.colours;
  if (state.colours) drawFilter($("little"), index, state.filters);
  $("about").textContent = `${state.colours ? "Filter" : "Map"} ${index}: ${below ? "orange" : "bright"} where ${state.colours ? "the pattern fits" : "it is excited"} ` +
    `(${Math.round(100 * some / values.length)} % of ${h} × ${w} places)${below ? ", blue where it is below zero" : ""}`;
  $("map").setAttribute("aria-label", `The map of ${name}`);
  if (state.colours || !state.layer.made) captions(["The window", `${size[0]} × ${size[1]} pixels of the photograph`], ["The pattern", `${name}, learned`], ["Pixel times pixel", "orange: alike, blue: opposite"]);
  // The brightest places, none beside another.
  const apart = Math.max(1, Math.round(Math.min(h, w) / 12)), taken = [];
  const order = [...values.keys()].filter(i => values[i] > 0).sort((a, b) => values[b] - values[a] || inward(a) - inward(b));
  for (const i of order) {
    const row = Math.floor(i / w), column = i % w;
    if (taken.length === 8) break;
    if (taken.every(t => Math.max(Math.abs(t.row - row), Math.abs(t.column - column)) >= apart)) taken.push({ row, column, value: values[i] });
  }
  $("best").querySelector("h2").textContent = taken.length ? `Where ${name} is most excited` : `Nothing in this photograph excites ${name}`;
  $("best").querySelector("div").replaceChildren(...taken.map(place => {
    const button = element("button"), canvas = element("canvas");
    button.type = "button";
    button.setAttribute("aria-label", `Row ${place.row}, column ${place.column}: ${two(place.value)}`);
    drawPart(canvas, state.seen, windowOf(place.row, place.column), 132);
    button.append(canvas, element("span", two(place.value)));
    button.addEventListener("click", () => goTo(place));
    return button;
  }));
}

// The lesson: pixel by pixel at one place, then place after place until the map is whole.
let lesson = 0, held = 0;  // the frame to come, below zero while it pauses; its milliseconds until now
function stopLesson() {
  cancelAnimationFrame(lesson);
  lesson = held = 0;
  $("play").textContent = "Show me step by step";
  $("number").ariaLive = "polite";
  if (state.maps) showWindow();
}

function pauseLesson() {
  cancelAnimationFrame(lesson);
  lesson = -1;
  $("play").textContent = "Go on";
  $("number").ariaLive = "polite";
}

function playLesson() {
  const from = held;
  stopLesson();
  const [, h, w] = state.shape, pixels = state.colours ? state.filters.shape[2] * state.filters.shape[3] : 0;
  const above = getComputedStyle($("pair")).position === "sticky" ? $("pair").offsetHeight : 0;  // which would cover it
  $("explain").style.scrollMarginTop = above + "px";
  if (!from) $("explain").scrollIntoView({ block: "nearest" });
  const first = pixels ? 3200 : 0, pause = 1000, sweep = 3200, began = performance.now() - from;
  $("play").textContent = "Pause";
  $("number").ariaLive = "off";
  const step = now => {
    const t = held = Math.max(1, now - began);
    if (t > first + pause + sweep) return stopLesson();
    lesson = requestAnimationFrame(step);
    if (t < first) return showWindow({ upto: Math.floor(pixels * t / first), known: 0 });
    // Slow for the first places, then ever faster.
    const part = Math.max(0, t - first - pause) / sweep, n = Math.min(h * w - 1, Math.floor(h * w * part ** 3));
    showWindow(part ? { known: n + 1, place: { row: Math.floor(n / w), column: n % w } } : { known: 0 });
  };
  lesson = requestAnimationFrame(step);
}
