"use strict";
// What one takes along: a picture of what is shown, and a link that shows it again.

function pictureToKeep() {
  const size = 560, gap = 24, small = 190, multiplied = $("explain").className === "", canvas = element("canvas"), context = canvas.getContext("2d");
  canvas.width = 2 * size + 3 * gap; canvas.height = size + (multiplied ? small : 0) + 190;
  const dark = getComputedStyle(document.body), text = (words, x, y, font = 20) => {
    context.font = `${font}px ${dark.fontFamily}`;
    context.fillText(words, x, y);
  };
  context.fillStyle = dark.backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = dark.color;
  text(`${$("model").value}, ${state.info.layer}, ${state.colours ? "filter" : "map"} ${state.shown}`, gap, 40, 26);
  const put = (id, x, y, side, smooth) => {
    context.imageSmoothingEnabled = smooth;
    context.drawImage($(id), x, y, side, side);
  };
  put("photo", gap, 64, size, false);
  put("map", size + 2 * gap, 64, size, false);
  const [, h, w] = state.shape, { row, column } = state.place, outline = (left, [x, y, width, height]) => {
    for (const [colour, wide] of [["#000", 5], ["#fff", 2.5]]) {
      context.strokeStyle = colour; context.lineWidth = wide;
      context.strokeRect(left + x * size, 64 + y * size, width * size, height * size);
    }
  };
  outline(gap, windowOf(row, column));
  outline(size + 2 * gap, [column / w, row / h, 1 / w, 1 / h]);
  const top = size + 64 + gap;
  let x = gap;
  if (multiplied) {
    for (const [id, sign] of [["pixels", "×"], ["pattern", "="], ["products", ""]]) {
      put(id, x, top, small, false);
      text(sign, x + small + 14, top + small / 2 + 12, 34);
      x += small + 50;
    }
  }
  const below = multiplied ? top + 60 : top + 20;
  text(`${$("kind").textContent} ${$("number").value}`, x, below, 32);
  const words = $("words").textContent.split(" ");
  let line = "", y = below + 44;
  for (const word of words) {
    if (line && context.measureText(line + word).width > canvas.width - x - gap) { text(line, x, y, 19); y += 26; line = ""; }
    line += word + " ";
  }
  text(line, x, y, 19);
  text("Lamina: what a convolution sees", gap, canvas.height - 20, 16);
  return canvas;
}

function savePicture() {
  pictureToKeep().toBlob(blob => {
    const link = element("a");
    link.href = URL.createObjectURL(blob);
    link.download = `lamina-${state.example || "photo"}-${state.info.layer}-${state.shown}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    say(`Saved as ${link.download}.`);
  }, "image/png");
}

// The address keeps what is shown; of photographs those that come with the page. Others are kept for Back.
function keepInAddress(push = false) {
  const kept = new URLSearchParams({ model: $("model").value });
  if (!$("layers").hidden) {
    for (const [name, value] of Object.entries({ layer: $("layer").value, filter: state.pinned, place: `${state.kept.row},${state.kept.column}` })) kept.set(name, value);
  }
  if (state.example) kept.set("photo", state.example);
  const address = "#" + kept, where = { set: album.indexOf(state.photos), at: state.at }, was = history.state;
  const moved = was && (address !== location.hash || was.set !== where.set || was.at !== where.at);
  history[push && moved ? "pushState" : "replaceState"](where, "", address);
}

function fromAddress() {
  const kept = new URLSearchParams(location.hash.slice(1)), whole = text => /^\d{1,6}$/.test(text) ? Number(text) : -1;
  const [row, column] = (kept.get("place") || "").split(",").map(whole);
  return { photo: kept.get("photo"), model: kept.get("model"), layer: kept.get("layer"), filter: whole(kept.get("filter") || ""),
           place: row >= 0 && column >= 0 ? { row, column } : null };
}

// The first thing that the address asks for and that is not here; of maps once their shape is known.
function lost(wanted, [count, h, w] = [Infinity, Infinity, Infinity]) {
  const { filter, place } = wanted, what = wanted.model && wanted.model !== $("model").value ? `model “${wanted.model}”`
    : wanted.layer && wanted.layer !== $("layer").value ? `layer “${wanted.layer}”` : filter >= count ? `filter ${filter}`
    : place && !(place.row < h && place.column < w) ? `place ${place.row},${place.column}` : wanted.photo && wanted.photo !== state.example ? `photograph “${wanted.photo}”` : "";
  return what && `The link asks for ${what}, which is not here.`;
}

async function copyLink() {
  keepInAddress();
  const mine = state.example ? "" : " It keeps no photograph of yours: only the layer, the filter and the place.";
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link is copied." + mine);
  } catch {
    say("The link is in the address bar." + mine);
  }
}
