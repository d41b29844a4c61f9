"use strict";
// What the page draws: maps, filters, bars, and a picture for whoever has no photograph at hand.

const element = (tag, text = "", className = "") => {
  const e = document.createElement(tag);
  if (text) e.textContent = text;
  if (className) e.className = className;
  return e;
};

// Colours of a map's values: black, blue, orange, near white: also for people who do not tell red from green.
const ramp = (() => {
  const stops = [[0, 0, 4], [40, 60, 140], [160, 70, 130], [250, 150, 60], [252, 253, 220]], table = [];
  for (let i = 0; i < 256; ++i) {
    const at = i / 255 * (stops.length - 1), k = Math.min(Math.floor(at), stops.length - 2), f = at - k;
    table.push(stops[k].map((a, c) => Math.round(a + (stops[k + 1][c] - a) * f)));
  }
  return table;
})();

function range(values) {
  let low = Infinity, high = -Infinity;
  for (const v of values) { if (v < low) low = v; if (v > high) high = v; }
  return [Math.min(low, 0), high];
}

function drawMap(canvas, values, h, w, alpha = false) {
  canvas.width = w; canvas.height = h;
  const context = canvas.getContext("2d"), image = context.createImageData(w, h);
  const [low, high] = range(values), scale = high > low ? 255 / (high - low) : 0;
  for (let i = 0; i < values.length; ++i) {
    const level = Math.max(0, Math.min(255, Math.round((values[i] - low) * scale))) || 0;
    const [r, g, b] = ramp[level];
    image.data.set([r, g, b, alpha ? Math.round(140 + level * 0.42) : 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
}

function drawFilter(canvas, index, filters) {
  const { data, shape: [, c, h, w] } = filters, plane = h * w;
  canvas.width = w; canvas.height = h;
  const context = canvas.getContext("2d"), image = context.createImageData(w, h);
  const values = data.subarray(index * c * plane, (index + 1) * c * plane);
  let largest = 1e-12;
  for (const v of values) largest = Math.max(largest, Math.abs(v));
  for (let p = 0; p < plane; ++p) {
    for (let k = 0; k < 3; ++k) image.data[4 * p + k] = 127.5 + 127.5 * values[k * plane + p] / largest;
    image.data[4 * p + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

function bars(target, rows, unit) {
  const most = Math.max(...rows.map(r => r.value), 1e-9);
  target.replaceChildren(...rows.map(r => {
    const row = element("div", "", "bar"), name = element("span", r.name), bar = element("i"), box = element("div");
    name.title = r.title || r.name;
    bar.style.width = 100 * r.value / most + "%";
    if (r.second) bar.className = "second";
    box.append(bar);
    row.append(name, box, element("span", unit(r.value)));
    return row;
  }));
}

// Stripes of every direction, rings and colours: what first layers answer to.
function example(take) {
  const canvas = element("canvas"), size = 448;
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d"), image = context.createImageData(size, size);
  for (let y = 0; y < size; ++y) for (let x = 0; x < size; ++x) {
    const dx = x - size / 2, dy = y - size / 2, r = Math.hypot(dx, dy), a = Math.atan2(dy, dx), at = 4 * (y * size + x);
    const rays = Math.sin(24 * a) * 60, rings = Math.sin(r * r / 420) * 60;
    const blend = r < 120 ? rings : rays;
    image.data.set([128 + blend + 60 * Math.cos(a), 128 + blend + 60 * Math.cos(a - 2.1), 128 + blend + 60 * Math.cos(a + 2.1), 255], at);
  }
  context.putImageData(image, 0, 0);
  canvas.toBlob(take, "image/png");
}
