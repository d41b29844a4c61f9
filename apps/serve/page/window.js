"use strict";
// The window under the pointer: the pixels, the filter, their products, and the one number that they add up to.

// Of each map: what it is measured by, and its brightest place. Maps that hardly answer are not made brighter than they are.
function measure() {
  const [count, , w] = state.shape;
  const own = Array.from({ length: count }, (_, i) => scaleOf(mapOf(i))), least = 0.05 * Math.max(...own);
  state.scales = own.map(scale => Math.max(scale, least));
  state.peaks = own.map((_, i) => {
    const values = mapOf(i);
    let best = 0;
    for (let k = 1; k < values.length; ++k) if (!(values[k] <= values[best])) best = k;
    return { row: Math.floor(best / w), column: best % w, value: values[best] };
  });
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

// The sum that the network makes there, term by term. Its own value is in the map: rounded to 32 bits at each step.
function productsAt(index, { row, column }) {
  const { filters, input, sides: [high, wide] } = state, [, , kh, kw] = filters.shape, { stride, start, size } = fieldOf();
  const across = kw > 1 ? (size[1] - 1) / (kw - 1) : 1, down = kh > 1 ? (size[0] - 1) / (kh - 1) : 1;
  const products = new Float64Array(kh * kw), levels = [];
  let sum = 0;
  for (let p = 0; p < kh * kw; ++p) {
    const y = start[0] + row * stride[0] + Math.floor(p / kw) * down, x = start[1] + column * stride[1] + p % kw * across;
    const inside = y >= 0 && y < high && x >= 0 && x < wide;
    levels.push([0, 1, 2].map(c => {
      const value = inside ? input.data[(c * high + y) * wide + x] : 0;
      products[p] += value * filters.data[(index * 3 + c) * kh * kw + p];
      return (value * input.std[c] + input.mean[c]) * input.divisor;
    }));
    sum += products[p];
  }
  return { products, levels, sum, bias: filters.bias[index], kh, kw };
}

// The shortest digits that mean the same 32 bits.
function exactly(value) {
  for (let digits = 1; digits < 9; ++digits) if (Math.fround(value.toPrecision(digits)) === value) return String(Number(value.toPrecision(digits)));
  return String(Number(value.toPrecision(9)));
}

const two = value => value.toFixed(Math.abs(value) >= 100 ? 0 : 2).replace(/^-(?=.*[1-9])/, "−").replace("-", "");

function wordsFor(value, best) {
  const words = state.filters ? ["It fits very well here.", "It fits somewhat.", "It hardly fits.", "It does not fit here."]
    : ["It is very excited here.", "It is somewhat excited.", "It is hardly excited.", "It is silent here."];
  if (value < 0) return state.filters ? "The opposite of the pattern is here." : "It is held back here: below zero.";
  return words[value >= 0.66 * best && value > 0 ? 0 : value >= 0.33 * best && value > 0 ? 1 : value > 0 ? 2 : 3];
}

// Places marks, canvases and words. `upto` pixels have been multiplied so far, `known` places of the map are there.
function showWindow({ upto = Infinity, known = Infinity, place = state.place } = {}) {
  const index = state.shown, [, h, w] = state.shape, values = mapOf(index), at = place.row * w + place.column;
  const put = (mark, [x, y, width, height]) => Object.assign(mark.style, { left: 100 * x + "%", top: 100 * y + "%", width: 100 * width + "%", height: 100 * height + "%" });
  const [x, y, wide, high] = windowOf(place.row, place.column), left = Math.max(0, x), top = Math.max(0, y);
  put($("frame"), state.filters ? [x, y, wide, high] : [left, top, Math.min(1, x + wide) - left, Math.min(1, y + high) - top]);
  put($("cell"), [place.column / w, place.row / h, 1 / w, 1 / h]);
  $("cell").hidden = upto < Infinity;
  if (known !== state.known || index !== state.drawn) drawMap($("map"), values, h, w, state.scales[index], known);
  Object.assign(state, { known, drawn: index });
  const value = values[at], best = state.peaks[index].value;
  $("number").value = two(value);
  $("number").dataset.value = exactly(value);
  $("words").textContent = wordsFor(value, best);
  $("exact").textContent = `Exactly ${exactly(value)}: the marked cell of the map, row ${place.row}, column ${place.column}.`;
  $("explain").classList.toggle("deep", !state.filters);
  if (!state.filters) return drawPart($("pixels"), state.seen, [x, y, wide, high], 192);
  const { products, levels, sum, bias, kh, kw } = productsAt(index, place), most = state.most ??= Math.max(...productsAt(index, state.peaks[index]).products.map(Math.abs));
  const mark = (colour, p) => p === upto ? [255, 60, 160] : colour;
  paint($("pixels"), kw, kh, p => mark(levels[p], p));
  drawFilter($("pattern"), index, state.filters);
  paint($("products"), kw, kh, p => p > upto ? [150, 154, 162] : mark((products[p] < 0 ? differ : agree)[levelOf(products[p], most)], p));
  if (upto < kh * kw) {
    $("number").value = two(products.subarray(0, upto + 1).reduce((a, b) => a + b, 0));
    $("words").textContent = `${upto + 1} of ${kh * kw} pixels…`;
    $("exact").textContent = "";
    return;
  }
  const whole = two(sum), extra = Math.abs(bias) < 0.005 ? "" : bias < 0 ? `, less ${two(-bias)} that this filter always takes off` : `, and ${two(bias)} that this filter always adds`;
  if (value === 0 && sum + bias < 0) {
    $("words").textContent = `It does not fit here: the sum is ${whole}${extra}, and less than nothing counts as nothing.`;
  } else if (extra) {
    $("words").textContent += ` (${whole}${extra}.)`;
  }
}

function showText() {
  const [, h, w] = state.shape, index = state.shown, [size] = [fieldOf().size.map(Math.round)], values = mapOf(index);
  const name = state.filters ? `filter ${index}` : `map ${index}`;
  let some = 0, below = false;
  for (const v of values) {
    if (v > 0) ++some;
    if (v < 0) below = true;
  }
  $("about").textContent = `${state.filters ? "Its map" : `Map ${index}`}: ${below ? "orange" : "bright"} where ${state.filters ? "the pattern fits" : "it is excited"} ` +
    `(${Math.round(100 * some / values.length)} % of the ${h} × ${w} places)${below ? ", blue where it is below zero" : ""}`;
  $("map").setAttribute("aria-label", `The map of ${name}`);
  const [first, second] = $("explain").querySelectorAll("figcaption span");
  first.textContent = `${size[0]} × ${size[1]} pixels of the photograph`;
  second.textContent = name;
  // The brightest places, none beside another.
  const apart = Math.max(1, Math.round(Math.min(h, w) / 12)), taken = [];
  const order = [...values.keys()].filter(i => values[i] > 0).sort((a, b) => values[b] - values[a]);
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
let lesson = 0;
function stopLesson() {
  cancelAnimationFrame(lesson);
  lesson = 0;
  $("play").textContent = "Show me step by step";
  $("number").ariaLive = "polite";
  if (state.maps) showWindow();
}

function playLesson() {
  stopLesson();
  const [, h, w] = state.shape, pixels = state.filters ? state.filters.shape[2] * state.filters.shape[3] : 0;
  const first = pixels ? 3200 : 0, pause = 1000, sweep = 3200, began = performance.now();
  $("play").textContent = "Stop";
  $("number").ariaLive = "off";
  const step = now => {
    const t = Math.max(0, now - began);
    if (t > first + pause + sweep) return stopLesson();
    lesson = requestAnimationFrame(step);
    if (t < first) return showWindow({ upto: Math.floor(pixels * t / first), known: 0 });
    // Slow for the first places, then ever faster.
    const part = Math.max(0, t - first - pause) / sweep, n = Math.min(h * w - 1, Math.floor(h * w * part ** 3));
    showWindow(part ? { known: n + 1, place: { row: Math.floor(n / w), column: n % w } } : { known: 0 });
  };
  lesson = requestAnimationFrame(step);
}
