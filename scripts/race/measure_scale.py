#!/usr/bin/env python3
"""How fast a folder of photographs is classified, by one process and by Ray, and what of it each part takes: a table.

    scripts/race/measure_scale.py --model resnet50.onnx --photos 2000 --ray 1,2,4           # the CPU
    scripts/race/measure_scale.py --model resnet50.safetensors --photos 20000 --devices all --precision fp16

--devices all: every GPU, one after the other and all at once; otherwise such as cpu, cuda:0 or cuda:0,cuda:1. Without
--ray neither Ray nor a network is needed. The photographs are copies of those in --folder, or made first (Pillow) of
those in docs/images, and are in the page cache when they are read. Processor seconds of a row are those of all its
processes, so that they hold on a machine that does other things meanwhile; images/s do not.
"""

import argparse
import io
import logging
import os
import random
import statistics
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import lamina
import numpy as np

ROOT = Path(__file__).parents[2]
DISTINCT = 64  # photographs; the others are copies of them


def encode(seed, width, height):
    from PIL import Image

    pick = random.Random(seed)
    with Image.open(pick.choice(sorted((ROOT / "docs/images").iterdir()))) as image:
        scale = pick.uniform(0.6, 1.0)
        w, h = scale * image.width, scale * image.height
        if w / h > width / height:
            w = h * width / height
        else:
            h = w * height / width
        left, top = pick.uniform(0, image.width - w), pick.uniform(0, image.height - h)
        part = image.convert("RGB").resize((width, height), Image.Resampling.BICUBIC, (left, top, left + w, top + h))
    file = io.BytesIO()
    part.save(file, "JPEG", quality=90)
    return file.getvalue()


def make_photos(folder, count, width, height):
    folder.mkdir(parents=True, exist_ok=True)
    there = sorted(folder.glob("*.jpg"))[:count]
    if there:
        distinct, kind = [path.read_bytes() for path in there[:DISTINCT]], f"as in {folder}"
    else:
        with ProcessPoolExecutor() as pool:
            distinct = list(pool.map(encode, range(min(DISTINCT, count)), [width] * DISTINCT, [height] * DISTINCT))
        kind = f"of {width} x {height}"
    paths = there + [folder / f"{i:06}.jpg" for i in range(len(there), count)]
    for i, path in enumerate(paths[len(there):]):
        path.write_bytes(distinct[i % len(distinct)])
    size = statistics.mean(len(file) for file in distinct)
    print(f"{count} photographs {kind}, {size / 1000:.0f} kB on average, {os.cpu_count()} cores")
    return [str(path) for path in paths]


class Processors:
    """The processor seconds of this process and all that came of it, asked often: of what has ended nothing is left."""

    def __init__(self):
        self.used = {}
        self.lock = threading.Lock()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            self.seconds()
            time.sleep(0.1)

    def seconds(self):
        parent, used = {}, {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue  # it has ended
                parent[int(entry.name)] = int(fields[1])
                used[int(entry.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        def ours(pid):
            while pid > 1 and pid != os.getpid():
                pid = parent.get(pid, 0)
            return pid == os.getpid()

        with self.lock:
            self.used |= {pid: seconds for pid, seconds in used.items() if ours(pid)}
            return sum(self.used.values())


class Table:
    def __init__(self):
        self.processors = Processors()
        print("\n| what | images | seconds | images/s | processor ms per image |\n|---|---|---|---|---|")

    def row(self, what, count, work):
        """Prints what `work` takes for so many images."""
        used, start = self.processors.seconds(), time.perf_counter()
        work()
        seconds, used = time.perf_counter() - start, self.processors.seconds() - used
        print(f"| {what} | {count} | {seconds:.2f} | {count / seconds:.0f} | {1e3 * used / count:.2f} |", flush=True)


def measure_parts(table, model, paths, devices, options):
    settings, cores = model.preprocess, os.cpu_count()
    some = paths[:max(len(paths) // 4, 1)]
    row = np.empty((settings.crop, settings.crop, 3), np.uint8)
    table.row("files read, one thread", len(paths), lambda: [Path(path).read_bytes() for path in paths])
    one = paths[:max(len(paths) // (4 * cores), 1)]
    table.row("decoded, resized, cropped, one thread", len(one),
              lambda: [lamina.resize_and_crop(path, settings, row) for path in one])
    with ThreadPoolExecutor(cores) as pool:
        table.row(f"decoded, resized, cropped, {cores} threads", len(some),
                  lambda: list(pool.map(lambda path: lamina.resize_and_crop(path, settings), some)))
    for device in devices:
        plan = model.compile(device=device, photos=True, **options)
        x = np.random.default_rng(0).integers(0, 256, plan.input_shapes[0], np.uint8)
        out = np.empty(plan.output_shapes[0], np.float32)
        for _ in range(3):
            plan(x, out=out)
        runs = max(len(some) // plan.batch, 3) if device == "cpu" else 200
        if device != "cpu":
            steps = sum(step["milliseconds"] for step in plan.profile(x, runs=20))
            print(f"| the network's kernels, {device}, each by itself | {plan.batch} | {steps / 1e3:.5f} "
                  f"| {1e3 * plan.batch / steps:.0f} | |")
        table.row(f"the network, {device}, pictures up and scores down", runs * plan.batch,
                  lambda: [plan(x, out=out) for _ in range(runs)])
    for together in [devices] + ([devices[:1]] if len(devices) > 1 else []):
        with lamina.Pool(model, ",".join(together), photos=True, **options) as pool:
            x = np.random.default_rng(0).integers(0, 256, pool.input_shapes[0], np.uint8)
            runs = max(len(some) // pool.max_batch, 3) if together[0] == "cpu" else 400 * len(together)
            for future in [pool.submit(x) for _ in range(4)]:
                future.result()
            table.row(f"the network, a pool of {', '.join(together)}", runs * pool.max_batch,
                      lambda: [future.result() for future in [pool.submit(x) for _ in range(runs)]])


def measure_process(table, model, folder, paths, devices, options):
    for together in ([devices[:1]] if len(devices) > 1 else []) + [devices]:
        settings = {"device": ",".join(together), **options}
        model.classify(paths[0], **{**settings, "batch": 1})  # the files and the device are warm
        table.row(f"the folder, one process, {', '.join(together)}", len(paths),
                  lambda: model.classify(folder, top=5, **settings))


class Same:
    """What Ray takes by itself: batches of the pictures' size, and nothing done with them."""

    def __init__(self, side):
        self.side = side

    def __call__(self, batch):
        return {"path": batch["path"], "pixels": np.zeros((len(batch["path"]), self.side, self.side, 3), np.uint8)}


def measure_ray(table, model, folder, count, actors, batch, out):
    import importlib.util

    import ray
    from ray.data.expressions import col

    spec = importlib.util.spec_from_file_location("ray_classify", ROOT / "examples/ray_classify.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False, runtime_env={"env_vars": {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "scripts/race"), str(ROOT / "examples"), os.environ.get("PYTHONPATH", "")])}})
    ray.data.DataContext.get_current().enable_progress_bars = False
    gpus = int(ray.cluster_resources().get("GPU", 0))
    files = lambda: ray.data.read_binary_files(str(folder), include_paths=True, num_cpus=0.25)
    ray.data.range(1).take_all()
    table.row("Ray, files read", count, lambda: files().materialize())
    side = lamina.load(model).preprocess.crop
    paths = f"{out}.parquet"
    ray.data.from_items([{"path": str(path)} for path in sorted(folder.iterdir())]).write_parquet(paths)
    table.row("Ray, files read, pictures of zeros", count,
              lambda: files().map_batches(Same, fn_constructor_args=(side,), batch_size=batch, concurrency=1,
                                          num_cpus=0.5).materialize())
    for number in actors:
        target = f"{out}/{number}"
        table.row(f"Ray, {number} actors, to Parquet", count,
                  lambda: example.rows_of(str(folder), model, actors=number, decoders=1, batch=batch,
                                          gpus=gpus > 0).write_parquet(target))
        table.row(f"Ray, {number} actors, paths alone, to Parquet", count,
                  lambda: example.rows_of(paths, model, actors=number, decoders=max(os.cpu_count() // number, 1),
                                          batch=batch, gpus=gpus > 0, block=max(min(1024, count // (4 * number)), batch))
                  .write_parquet(f"{target}-paths"))
        for written in (target, f"{target}-paths"):
            rows = ray.data.read_parquet(written)
            assert rows.count() == count and rows.filter(expr=col("error").is_not_null()).count() == 0
    ray.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="an .onnx or .safetensors file of a classifier of photographs")
    parser.add_argument("--photos", type=int, default=2000, help="how many (2000)")
    parser.add_argument("--size", default="500x375", help="of the photographs (500x375)")
    parser.add_argument("--folder", type=Path, help="where they are, or are made (a temporary directory)")
    parser.add_argument("--devices", default="cpu", help="all, cpu, cuda:0, ...")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--ray", help="numbers of actors, such as 1,2,4")
    parser.add_argument("--only-ray", action="store_true")
    args = parser.parse_args()

    width, height = map(int, args.size.split("x"))
    devices = args.devices.split(",")
    if args.devices == "all":
        devices = [f"cuda:{i}" for i in range(lamina.cuda_device_count())] or ["cpu"]
    options = {"batch": args.batch, "precision": args.precision, "threads": args.threads}
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary) / "photos"
        paths = make_photos(folder, args.photos, width, height)
        model = lamina.load(args.model)
        model.preprocess = model.preprocess or lamina.torchvision_imagenet()
        print(f"{Path(args.model).name}, {args.precision}, batch {args.batch}, {', '.join(devices)}; JPEG by "
              f"{lamina.jpeg_decoder()}")
        table = Table()
        if not args.only_ray:
            measure_parts(table, model, paths, devices, options)
            measure_process(table, model, folder, paths, devices, options)
        if args.ray:
            file = f"{temporary}/model.safetensors"  # an .onnx file does not say how photographs become inputs
            model.save(file)
            measure_ray(table, file, folder, args.photos, [int(n) for n in args.ray.split(",")], args.batch,
                        f"{temporary}/out")


if __name__ == "__main__":
    main()
