"use strict";
// What a detector finds in the photograph: boxes and points over it, and a line for each thing.

const detector = () => state.models.find(m => ["detect", "segment", "pose", "obb"].includes(m.task));
const hueOf = label => `hsl(${label * 137.5 % 360} 75% 38%)`;  // neighbours far apart

function drawFound({ width, height, detections }) {
  const canvas = $("boxes"), g = canvas.getContext("2d"), unit = width / 720;
  Object.assign(canvas, { width, height });
  g.drawImage(state.bitmap, 0, 0, width, height);
  g.lineWidth = 3 * unit;
  g.font = `600 ${15 * unit}px sans-serif`;
  for (const thing of [...detections].reverse()) {  // the best on top
    const [left, top, right, bottom] = thing.box, at = thing.corners || [left, top, right, top, right, bottom, left, bottom];
    g.strokeStyle = g.fillStyle = hueOf(thing.class);
    g.beginPath();
    for (let i = 0; i < 8; i += 2) g.lineTo(at[i], at[i + 1]);
    g.closePath();
    g.stroke();
    for (const [x, y, score] of thing.points || []) if (score >= 0.5) g.fillRect(x - 3 * unit, y - 3 * unit, 6 * unit, 6 * unit);
    const text = `${thing.name} ${(100 * thing.score).toFixed(0)} %`, high = 20 * unit, y = Math.max(0, top - high);
    const wide = g.measureText(text).width + 8 * unit, x = Math.max(0, Math.min(left, width - wide));
    g.fillRect(x, y, wide, high);
    g.fillStyle = "#fff";
    g.fillText(text, x + 4 * unit, y + 15 * unit);
  }
}

async function detect() {
  const model = detector(), blob = state.blob;
  if (!model) return;
  try {
    const answer = await (await ask(query("/detect", { model: model.name }), { method: "POST", body: blob })).json();
    if (blob !== state.blob) return;
    const count = answer.detections.length, found = count ? `${count} thing${count > 1 ? "s" : ""}` : "nothing that it is sure of";
    drawFound(answer);
    $("found").hidden = false;
    $("found").querySelector("h2").textContent = `The model “${model.name}” finds ${found}`;
    $("boxes").setAttribute("aria-label", `The photograph; found: ${answer.detections.map(d => d.name).join(", ") || "nothing"}`);
    bars($("things"), answer.detections.slice(0, 20).map(d => ({ name: d.name, value: d.score })), v => (100 * v).toFixed(0) + " %", 1);
  } catch (error) { say(error.message, true); }
}

// Of models that this page shows nothing of: what answers for them.
const withoutPage = () => `None of the models that are served (${state.models.map(m => m.name).join(", ")}) shows its layers here: they do not ` +
  "say how a photograph becomes their input, which --preprocess of lamina serve does. Tensors go to /v2/models/MODEL/infer.";
