"use strict";
// What the page draws: maps, filters, photographs, bars.

const element = (tag, text = "", className = "") => {
  const e = document.createElement(tag);
  if (text) e.textContent = text;
  if (className) e.className = className;
  return e;
};

// Colours that also people tell apart who do not tell red from green. None is black: a map is to be looked at.
function ramp(stops) {
  return Array.from({ length: 256 }, (_, i) => {
    const at = i / 255 * (stops.length - 1), k = Math.min(Math.floor(at), stops.length - 2), f = at - k;
    return stops[k].map((a, c) => Math.round(a + (stops[k + 1][c] - a) * f));
  });
}
const warm = ramp([[38, 34, 74], [98, 46, 142], [204, 66, 108], [250, 154, 56], [255, 250, 205]]);
const cold = ramp([[38, 34, 74], [24, 92, 130], [84, 184, 204], [220, 246, 242]]);
const agree = ramp([[255, 255, 255], [255, 190, 110], [205, 80, 0]]);
const differ = ramp([[255, 255, 255], [140, 190, 240], [20, 80, 175]]);

// What a map's values are measured by: nearly all of them fit below. A few thousand of them tell it.
function scaleOf(values) {
  const step = Math.ceil(values.length / 4096), sizes = [];
  for (let i = 0; i < values.length; i += step) {
    const size = Math.abs(values[i]);
    if (size > 0 && size < Infinity) sizes.push(size);
  }
  sizes.sort((a, b) => a - b);
  return sizes.length ? sizes[Math.floor(0.99 * (sizes.length - 1))] : 0;
}

// The square root opens up the dark end, where most values are.
const levelOf = (value, scale) => Math.round(255 * Math.min(1, Math.sqrt(Math.abs(value) / (scale || 1)))) || 0;

function paint(canvas, w, h, colourOf) {
  canvas.width = w; canvas.height = h;
  const context = canvas.getContext("2d"), image = context.createImageData(w, h);
  for (let i = 0, at = 0; i < w * h; ++i) {
    const colour = colourOf(i);
    for (let c = 0; c < 3; ++c) image.data[at++] = colour[c];
    image.data[at++] = 255;
  }
  context.putImageData(image, 0, 0);
}

// Those before `known` alone: the others are not computed yet. Every so many if it needs not be larger than `most`.
const unknown = [120, 124, 134];
function drawMap(canvas, values, h, w, scale, known = Infinity, most = Infinity) {
  const step = Math.ceil(Math.max(h, w) / most) || 1, across = Math.ceil(w / step);
  paint(canvas, across, Math.ceil(h / step), p => {
    const i = step === 1 ? p : Math.floor(p / across) * step * w + p % across * step;
    return i >= known ? unknown : (values[i] < 0 ? cold : warm)[levelOf(values[i], scale)];
  });
}

function copyTo(canvas, picture) {
  canvas.width = picture.width; canvas.height = picture.height;
  canvas.getContext("2d").drawImage(picture, 0, 0);
}

// Where the map is bright, its colours as light on the photograph.
function drawLight(canvas, values, h, w, scale) {
  const small = element("canvas"), context = canvas.getContext("2d");
  paint(small, w, h, i => { const l = levelOf(values[i], scale); return (values[i] < 0 ? cold : warm)[l].map(c => c * l / 255); });
  context.fillStyle = "rgb(0 0 0 / .45)";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.globalCompositeOperation = "screen";
  context.imageSmoothingEnabled = true;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  context.globalCompositeOperation = "source-over";
}

function drawFilter(canvas, index, filters, marked = -1) {
  const { data, shape: [, c, h, w] } = filters, plane = h * w;
  const values = data.subarray(index * c * plane, (index + 1) * c * plane);
  let largest = 1e-12;
  for (const v of values) largest = Math.max(largest, Math.abs(v));
  paint(canvas, w, h, p => p === marked ? [255, 60, 160] : [0, 1, 2].map(k => 127.5 + 127.5 * values[k * plane + p] / largest));
}

// The part of what the network sees that is `part` [x, y, width, height], each from 0 to 1, in its own pixels: beyond
// it is nothing but grey.
function drawPart(canvas, seen, part, size) {
  const context = canvas.getContext("2d"), [x, y, across, down] = part;
  canvas.width = canvas.height = size;
  context.fillStyle = "#777";
  context.fillRect(0, 0, size, size);
  context.imageSmoothingEnabled = false;
  context.drawImage(seen, -x / across * size, -y / down * size, size / across, size / down);
}

function bars(target, rows, unit, most = Math.max(...rows.map(r => r.value), 1e-9)) {
  target.replaceChildren(...rows.map(r => {
    const row = element("div", "", "bar"), name = element("span", r.name), bar = element("i"), box = element("div");
    name.title = r.title || r.name;
    bar.style.width = 100 * r.value / most + "%";
    if (r.second) bar.className = "second";
    if (r.color) bar.style.background = r.color;
    box.append(bar);
    row.append(name, box, element("span", unit(r.value)));
    return row;
  }));
}

// How far a place of the map lies from its middle. What a layer clips is the same at many places: the first is a corner.
function inward(at) {
  const [, h, w] = state.shape;
  return Math.hypot(2 * Math.floor(at / w) + 1 - h, 2 * (at % w) + 1 - w);
}

// Of each map: what it is measured by, and its brightest place. Maps that hardly answer are not made brighter than they are.
function measure() {
  const [count, , w] = state.shape;
  const own = Array.from({ length: count }, (_, i) => scaleOf(mapOf(i))), least = 0.05 * Math.max(...own);
  state.scales = own.map(scale => Math.max(scale, least));
  state.peaks = own.map((_, i) => {
    const values = mapOf(i);
    let best = 0;
    for (let k = 1; k < values.length; ++k) {
      if (!(values[k] <= values[best]) || (values[k] === values[best] && inward(k) < inward(best))) best = k;
    }
    return { row: Math.floor(best / w), column: best % w, value: values[best] };
  });
}
