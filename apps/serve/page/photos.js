"use strict";
// The photographs: read, sent, shown side by side, and kept for Back.

async function read(blob, example = null) {
  let bitmap = await createImageBitmap(blob, { imageOrientation: "from-image" }).catch(async () => {
    say("This browser does not know the format; asking the server…");  // which reads HEIC, TIFF and more
    return createImageBitmap(await (await ask("/picture", { method: "POST", body: blob })).blob());
  });
  const { width, height } = bitmap, scale = 1400 / Math.max(width, height);
  if (scale < 1) {  // as large as it is drawn: there may be many
    const small = await createImageBitmap(bitmap, { resizeWidth: Math.max(1, Math.round(width * scale)), resizeHeight: Math.max(1, Math.round(height * scale)), resizeQuality: "high" });
    bitmap.close();
    bitmap = small;
  }
  return { blob, bitmap, example, name: example || blob.name || "photograph", answers: new Map(), seen: new Map() };
}

// What the server takes of one file; the page does not learn what --body-megabytes says.
const mostMegabytes = 64;

// Photographs, side by side where they are several. Of those that cannot be read it is said why.
async function take(files, wanted = {}) {
  const photos = [], failed = [];
  for (const file of files) {
    if (!file.size) failed.push(`${file.name} is empty`);
    else if (file.size > mostMegabytes << 20) failed.push(`${file.name} is larger than ${mostMegabytes} MB`);
    else await read(file).then(photo => photos.push(photo), error => failed.push(`${file.name}: ${error.message}`));
  }
  state.failed = failed.join("\n");
  say(state.failed, failed.length > 0);
  if (photos.length) await showPhotos(photos, 0, { push: true, ...wanted });
}

async function takeExample(name, wanted = {}) {
  const image = $("examples").querySelector(`[data-photo=${name}] img`);
  say(state.failed = "");
  try {
    const photo = album.flat().find(p => p.example === name) || await read(await (await ask(image.getAttribute("src"))).blob(), name);
    await showPhotos(album.find(set => set.length === 1 && set[0] === photo) || [photo], 0, wanted);
  } catch (error) {
    say(error.message, true);
  }
}

const album = [];  // sets of photographs, which Back returns to
function showPhotos(photos, at, wanted) {
  if (!album.includes(photos)) album.push(photos);
  Object.assign(state, { photos, at });
  return update(wanted);
}

// What the browser knows and the server does not, or not without a package, goes there as a PNG.
async function post(photo, path, binary = false) {
  const send = () => ask(path, { method: "POST", body: photo.blob, headers: binary ? { Accept: "application/octet-stream" } : {} });
  return send().catch(async error => {
    if (error.status !== 415 && error.status !== 422) throw error;
    const canvas = element("canvas");
    canvas.width = photo.bitmap.width; canvas.height = photo.bitmap.height;
    canvas.getContext("2d").drawImage(photo.bitmap, 0, 0);
    photo.blob = await new Promise(done => canvas.toBlob(done, "image/png"));
    return send();
  });
}

// What the network sees of a photograph: its numbers, and drawn.
function seenBy(model, photo) {
  if (!photo.seen.has(model)) {
    photo.seen.set(model, post(photo, query("/input", { model }), true).then(described).then(input => {
      const canvas = element("canvas"), [, h, w] = input.shape;
      paint(canvas, w, h, p => [0, 1, 2].map(c => (input.data[c * h * w + p] * input.std[c] + input.mean[c]) * input.divisor));
      return { input, canvas };
    }));
    photo.seen.get(model).catch(() => photo.seen.delete(model));
  }
  return photo.seen.get(model);
}
