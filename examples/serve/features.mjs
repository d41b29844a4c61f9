// The maps of a photograph as floats: node features.mjs PHOTO
import { readFile } from "node:fs/promises";

const reply = await fetch("http://127.0.0.1:8080/features?model=alexnet-conv1", {
  method: "POST", body: await readFile(process.argv[2]), headers: { Accept: "application/octet-stream" } });
if (!reply.ok) throw new Error((await reply.json()).error);
const { layer, shape: [maps, height, width] } = JSON.parse(reply.headers.get("Lamina-Description"));
const values = new Float32Array(await reply.arrayBuffer());
const means = Array.from({ length: maps }, (_, i) =>
  values.subarray(i * height * width, (i + 1) * height * width).reduce((a, b) => a + b) / (height * width));
console.log(`${layer}: ${maps} maps of ${height} x ${width}; the strongest is ${means.indexOf(Math.max(...means))}`);
