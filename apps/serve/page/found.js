"use strict";
// What a model says of the photographs: classes, things with boxes, masks and points, or the class of each pixel. A card for each.

// The model that is chosen, if it answers anything; else the first that does, and is not described as for one thing alone.
const speaker = () => { const all = [byName($("model").value), ...state.models].filter(m => m?.answers); return all.find(m => m.name === $("model").value || !m.description) || all[0]; };

const asks = ({ name: model, answers }) => query("/" + answers, { model, ...{ classify: { top: 5 }, detect: { confidence: $("confidence").value } }[answers] });

async function answerOf(path, { answers }, photo) {
  const reply = await post(photo, path, answers === "segment");
  if (answers !== "segment") return reply.json();
  return { ...JSON.parse(reply.headers.get("Lamina-Description")), map: new Uint16Array(await reply.arrayBuffer()) };
}

const percent = v => (100 * v).toFixed(1) + " %";
const counted = (count, thing) => `${count || "no"} ${thing}${count === 1 ? "" : "s"}`;

// In words and rows.
const told = {
  classify(model, { classes, doubt, advice }) {
    const shares = "probability" in classes[0], unsure = !!doubt,
          close = classes.slice(0, 2).filter(c => c.probability > classes[0].probability / 2).map(c => c.name).join(" or ");
    return { title: unsure ? `What is it? The model “${model}” is not sure` : shares ? `The model “${model}” says: ${close}` : `The model “${model}” answers with a number, no probability`,
             short: shares ? classes[0].name + (unsure ? "?" : "") : "", unsure, doubt, unit: shares ? percent : two,
             hint: "A model can only choose among the classes that it was trained on." + (advice ? ` ${advice}.` : ""),
             rows: classes.map(c => ({ name: c.name, value: c.probability ?? c.score })) };
  },
  detect(model, { detections }) {
    const found = detections.length ? counted(detections.length, "thing") : "nothing that it is sure of";
    return { title: `The model “${model}” finds ${found}`, short: found, unit: v => (100 * v).toFixed(0) + " %",
             rows: detections.map(d => ({ name: d.name, value: d.score, color: d.color })) };
  },
  segment(model, { classes, background }) {
    const seen = classes.filter(c => c.share > 0.001), things = seen.filter(c => !background || c.class);
    return { title: `The model “${model}” sees ${things.length ? things.slice(0, 3).map(c => c.name).join(", ") : "nothing but background"}`, unit: percent,
             short: things.slice(0, 2).map(c => c.name).join(", ") || "background", hint: "Shares of the photograph's area.",
             rows: seen.map(c => ({ name: c.name, value: c.share, color: background && !c.class ? "#888" : c.color })) };
  },
};

const brightness = colour => colour.reduce((sum, c, i) => sum + c * [0.299, 0.587, 0.114][i], 0);
const rgb = text => [1, 3, 5].map(at => parseInt(text.slice(at, at + 2), 16));

// COCO's compressed run lengths, column by column: where each run ends.
function endsOf(counts) {
  const runs = [];
  for (let at = 0; at < counts.length;) {
    let value = 0, shift = 0, letter = 32;
    while (letter & 32) {
      letter = counts.charCodeAt(at++) - 48;
      value += (letter & 31) * 2 ** shift;
      shift += 5;
    }
    if (letter & 16) value -= 2 ** shift;
    runs.push(value + (runs.length > 2 ? runs[runs.length - 2] : 0));
  }
  let end = 0;
  return runs.map(run => end += run);
}

function mix(data, at, colour, amount) {
  for (let c = 0; c < 3; ++c) data[at + c] += (colour[c] - data[at + c]) * amount;
}

function tintMask({ data, width, height }, { size: [high, wide], counts }, colour) {
  const ends = endsOf(counts);
  let run = 0, first = 0, column = 0;
  for (let x = 0; x < width; ++x) {
    const next = Math.floor((x + 0.5) * wide / width);
    [run, first] = next === column ? [first, first] : [run, run];  // a column may be drawn more than once
    column = next;
    for (let y = 0; y < height; ++y) {
      const place = column * high + Math.floor((y + 0.5) * high / height);
      while (ends[run] <= place) ++run;
      if (run % 2 && run < ends.length) mix(data, 4 * (y * width + x), colour, 0.5);
    }
  }
}

// As `lamina segment` does it: the photograph is grey under the colours, a class 0 called background stays as it is, what the network was not shown is dimmed.
function tintMap({ data, width, height }, { map, shape: [high, wide], classes, background }) {
  const colours = new Map(classes.map(c => [c.class, rgb(c.color)])), line = Math.max(1, Math.round(Math.max(wide, high) / 500));
  for (let i = 0; i < width * height; ++i) {
    const x = Math.floor((i % width + 0.5) * wide / width), y = Math.floor((Math.floor(i / width) + 0.5) * high / height), own = map[y * wide + x];
    if (background && !own) continue;
    data.fill(brightness(data.slice(4 * i, 4 * i + 3)), 4 * i, 4 * i + 3);
    if (own === 65535) { mix(data, 4 * i, [22, 22, 27], 0.65); continue; }
    const edge = [[-line, 0], [line, 0], [0, -line], [0, line]].some(([dx, dy]) => x + dx >= 0 && x + dx < wide && y + dy >= 0 && y + dy < high && map[(y + dy) * wide + x + dx] !== own);
    mix(data, 4 * i, colours.get(own), edge ? 0.95 : 0.55);
  }
}

function drawThings(g, { detections, bones = [] }, scale, unit) {
  const line = (points, close) => {
    g.beginPath();
    points.forEach(([x, y]) => g.lineTo(x * scale, y * scale));
    if (close) g.closePath();
    g.stroke();
  };
  const things = [...detections].reverse(), pen = (things.length > 40 ? 1 : 3) * unit;  // the best on top
  g.lineJoin = g.lineCap = "round";
  for (const thing of things) {
    const [left, top, right, bottom] = thing.box, c = thing.corners || [left, top, right, top, right, bottom, left, bottom];
    g.strokeStyle = g.fillStyle = thing.color;
    g.lineWidth = pen;
    line([0, 2, 4, 6].map(i => [c[i], c[i + 1]]), true);
    const points = thing.points || [], seen = p => p && p[2] >= 0.5;
    for (const [from, to] of bones) if (seen(points[from]) && seen(points[to])) line([points[from], points[to]]);
    for (const [x, y] of points.filter(seen)) {
      g.beginPath();
      g.arc(x * scale, y * scale, 3.5 * unit, 0, 7);
      g.fill();
      g.lineWidth = unit; g.strokeStyle = "#111";
      g.stroke();
      g.lineWidth = pen; g.strokeStyle = thing.color;
    }
  }
  g.font = `600 ${13 * unit}px system-ui, sans-serif`;
  // The best first. None hides another, and all together leave the picture free: the rows beside it have every thing.
  const labels = g.canvas.labels = [], { width, height } = g.canvas;
  let room = width * height / 8;
  for (const thing of detections) {
    const text = `${thing.name} ${(100 * thing.score).toFixed(0)} %`, high = 19 * unit, wide = g.measureText(text).width + 10 * unit;
    const [left, top, , bottom] = thing.box.map(v => v * scale), x = Math.max(0, Math.min(left - 1.5 * unit, width - wide));
    const free = y => y >= 0 && y + high <= height && !labels.some(l => l.x < x + wide && x < l.x + l.wide && l.y < y + high && y < l.y + high);
    const y = [top - high - 1.5 * unit, Math.max(0, top), bottom + 1.5 * unit, bottom - high, top + high, top + 2 * high].find(free);
    if (y === undefined || (labels.length && room < wide * high)) continue;
    room -= wide * high;
    labels.push({ x, y, wide, high });
    g.fillStyle = thing.color;
    g.fillRect(x, y, wide, high);
    g.fillStyle = brightness(rgb(thing.color)) > 125 ? "#111" : "#fff";
    g.fillText(text, x + 5 * unit, y + 14 * unit);
  }
}

function drawAnswer(canvas, { bitmap }, answer, alone) {
  const { width, height } = answer.map || answer.detections ? answer : bitmap, longer = Math.max(width, height);
  const scale = Math.min(1400, Math.max(alone ? 720 : 480, longer)) / longer, g = canvas.getContext("2d", { willReadFrequently: true });
  canvas.width = Math.max(1, Math.round(width * scale)); canvas.height = Math.max(1, Math.round(height * scale));
  g.imageSmoothingEnabled = longer > 64;
  g.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const masks = (answer.detections || []).filter(d => d.mask);
  if (masks.length || answer.map) {
    const pixels = g.getImageData(0, 0, canvas.width, canvas.height);
    for (const thing of masks.reverse()) tintMask(pixels, thing.mask, rgb(thing.color));
    if (answer.map) tintMap(pixels, answer);
    g.putImageData(pixels, 0, 0);
  }
  if (answer.detections) drawThings(g, answer, scale, longer * scale / Math.min(alone ? 720 : 400, alone ? innerWidth : innerWidth / 2));
}

// The thing of the row under the pointer is marked in the picture.
function markThings(list, holder, canvas, { detections, width, height }) {
  const mark = element("div", "", "mark");
  mark.hidden = true;
  holder.append(mark);
  list.addEventListener("pointerover", e => {
    const thing = detections[[...list.children].indexOf(e.target.closest(".bar"))];
    mark.hidden = !thing;
    if (!thing) return;
    const [left, top, right, bottom] = thing.box, across = canvas.offsetWidth / width, down = canvas.offsetHeight / height;
    Object.assign(mark.style, { left: canvas.offsetLeft + left * across + "px", top: canvas.offsetTop + top * down + "px", width: (right - left) * across + "px", height: (bottom - top) * down + "px" });
  });
  list.addEventListener("pointerleave", () => { mark.hidden = true; });
}

// Shows one photograph's answer; of several with a picture, which chooses the photograph.
function fillCard(card, model, photo, answer, alone) {
  const { title, short, rows, unit, doubt, hint, unsure } = told[model.answers](model.name, answer), text = element("figcaption"), list = element("div");
  if (!alone || model.answers !== "classify") {
    const canvas = element("canvas"), label = `${photo.name}: ${short}`;
    drawAnswer(canvas, photo, answer, alone);
    const holder = element(alone ? "div" : "button", "", "drawn");
    if (alone) canvas.setAttribute("role", "img");
    (alone ? canvas : holder).setAttribute("aria-label", label);
    if (!alone) holder.type = "button";
    holder.append(canvas);
    if (alone && answer.detections) markThings(list, holder, canvas, answer);
    card.append(holder);
  }
  text.append(...(alone ? [] : [element("b", photo.name), ...(model.answers === "classify" ? [] : [element("p", short)])]));
  if (doubt) text.append(element("p", alone ? doubt[0].toUpperCase() + doubt.slice(1) + "." : "not sure", "doubt"));
  bars(list, alone ? rows : rows.slice(0, 3), unit, model.answers === "classify" && unit === two ? undefined : 1);
  const rest = [...list.children].slice(20);
  for (const row of rest) row.hidden = true;
  const more = rest.length ? [element("button", `and ${rest.length} more`)] : [];
  for (const button of more) button.addEventListener("click", () => { for (const row of rest) row.hidden = false; button.remove(); });
  const chosen = $("model").value, instead = chosen === model.name ? "" : `“${chosen}” names nothing, so “${model.name}” answers. `;
  text.append(list, ...more, ...(alone && instead + (hint || "") ? [element("p", instead + (hint || ""), "hint")] : []));
  card.append(text);
  card.classList.toggle("unsure", !!unsure);
  return title;
}

// The chosen one of several photographs, and what a model draws over it, large.
async function markPhotos() {
  const { model, path, photos } = $("cards").shown;
  for (const [i, card] of [...$("cards").children].entries()) card.querySelector("button")?.setAttribute("aria-pressed", i === state.at);
  const answer = photos.length > 1 && model.answers !== "classify" ? await photos[state.at].answers.get(path) : null;
  $("closer").replaceChildren();
  $("closer").hidden = !answer;
  if (answer) fillCard($("closer"), model, photos[state.at], answer, true);
}

async function lookCloser(photos, at) {
  await showPhotos(photos, at, { stay: true, push: true });
  ($("closer").hidden ? $("see") : $("closer")).scrollIntoView({ block: "start" });
}

async function answer() {
  const model = speaker(), photos = state.photos, alone = photos.length === 1, heading = $("found").querySelector("h2");
  if (!model) return;  // then there never is one
  const path = asks(model), shown = $("cards").shown, mine = { model, path, photos }, current = () => $("cards").shown === mine;
  if (shown?.path === path && shown.photos === photos) return markPhotos();
  $("cards").shown = mine;
  $("found").classList.add("old");
  const cards = photos.map(() => element("figure"));
  let failed = "", title = `What the model “${model.name}” says of ${photos.length} photographs`;
  await Promise.all(photos.map(async (photo, i) => {
    try {
      const known = photo.answers.get(path) || answerOf(path, model, photo);
      photo.answers.set(path, known);
      const own = fillCard(cards[i], model, photo, await known, alone);
      if (alone) title = own; else cards[i].addEventListener("click", () => lookCloser(photos, i));
    } catch (error) {
      photo.answers.delete(path);
      cards[i].replaceChildren(element("figcaption", `${photo.name}: ${error.message}`, "error"));
      failed = error.message;
    }
  }));
  if (!current()) return;
  if (alone && failed) {  // what was there stays, and this is asked again
    $("cards").shown = null;
    $("found").classList.remove("old");
    return say(failed, true);
  }
  heading.textContent = title;
  const beside = alone && model.answers === "classify";  // the photograph itself is shown below
  beside ? $("right").prepend($("found")) : $("drop").after($("found"));
  $("found").className = alone ? (beside ? "beside" : "alone") : "several";
  $("cards").replaceChildren(...cards);
  $("found").hidden = false;
  $("sure").hidden = model.answers !== "detect";
  await markPhotos();
}

// Of models that this page shows nothing of: why, and what answers for them.
const notShown = models => !models.length ? "" : `Not shown here: ${models.map(m => m.name).join(", ")}. ` + (models.some(m => m.photographs) ? "" :
  "No photographs go in, or --preprocess of lamina serve has to say how. ") + "Tensors go to /v2/models/MODEL/infer.";
