#!/usr/bin/env python3
"""Classifies a folder of photographs with Ray Data and writes a directory of Parquet, a row a photograph.

    ray_classify.py PHOTOS OUT --model model.safetensors
    ray_classify.py PHOTOS OUT --arch alexnet --weights alexnet-owt-7be5be79.pth --actors 4
    ray_classify.py PATHS.parquet OUT --model model.safetensors --decoders 16

PHOTOS is a directory, or Parquet with a column `path`. Of a directory the files are read by Ray and decoded on CPU
actors; the network runs on a GPU for each actor, or on CPU actors where the cluster has no GPU. Of Parquet the paths
alone travel, and each actor of the network reads and decodes for itself, which costs far less (docs/inside/scale.md). All
machines must see PHOTOS, OUT and the model under the same path (or URL, of those that pyarrow knows).
"""

import argparse
import time

import lamina.ray
import ray
from ray.data.expressions import col

EXTENSIONS = ["png", "jpg", "jpeg", "bmp", "tga", "pgm", "ppm", "webp", "heic", "heif"]


def rows_of(photos, model, *, actors, decoders, batch, gpus, top=5, block=1024):
    """The dataset of path, classes, scores and error."""
    # Fractions of a core, that leave one: where actors hold all of them, none is left for Ray's own tasks, and the job
    # waits forever. They say what Ray counts, not how many threads run.
    cores = ray.cluster_resources()["CPU"]
    read_here = photos.endswith(".parquet")
    share = min(1.0, max(cores - 1, cores / 2) / ((0 if read_here else decoders) + (0 if gpus else actors) or 1))
    resources = {"num_gpus": 1} if gpus else {"num_cpus": share}
    options = {"top": top, "batch": batch}
    reading = {"num_cpus": min(1.0, cores / 4)}
    if read_here:
        # A block is one actor's work, and Ray hands out some tens of them a second.
        pictures = ray.data.read_parquet(photos, columns=["path"], **reading).repartition(
            target_num_rows_per_block=block)
        options["decoders"] = decoders
    else:
        files = ray.data.read_binary_files(photos, include_paths=True, file_extensions=EXTENSIONS, **reading)
        pictures = files.map_batches(lamina.ray.Decoder, fn_constructor_args=(model,), batch_size=batch,
                                     concurrency=decoders, num_cpus=share)
    return pictures.map_batches(lamina.ray.Classifier, fn_constructor_args=(model,), fn_constructor_kwargs=options,
                                batch_size=block if read_here else batch, concurrency=actors, **resources)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", metavar="PHOTOS")
    parser.add_argument("out", metavar="OUT")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", help="a model file")
    which.add_argument("--arch", help="a ready-made network, with --weights")
    parser.add_argument("--weights")
    parser.add_argument("--actors", type=int, help="that run the network; one for each GPU, or one")
    parser.add_argument("--decoders", type=int, default=1, help="actors that decode, or threads of each actor")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--block", type=int, default=1024, help="photographs that an actor gets at a time, of Parquet")
    parser.add_argument("--top", type=int, default=5)
    options = parser.parse_args()
    if options.arch and not options.weights:
        parser.error("--arch needs --weights")

    ray.init(ignore_reinit_error=True)
    gpus = int(ray.cluster_resources().get("GPU", 0))
    start = time.perf_counter()
    rows = rows_of(options.photos, options.model or (options.arch, options.weights), actors=options.actors or gpus or 1,
                   decoders=options.decoders, batch=options.batch, gpus=gpus > 0, top=options.top, block=options.block)
    rows.write_parquet(options.out)
    seconds = time.perf_counter() - start
    written = ray.data.read_parquet(options.out)
    count, failed = written.count(), written.filter(expr=col("error").is_not_null()).count()
    print(f"{count} photographs in {seconds:.1f} s, {count / seconds:.1f} images/s, {failed} with an error")


if __name__ == "__main__":
    main()
