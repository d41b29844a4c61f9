#!/usr/bin/env python3
"""Learn the first layer of an AlexNet, 96 colour filters of 3x11x11, from four photographs.

No labels and no gradient descent: the filters are the independent components of natural images. Needs numpy, pillow and
scikit-learn; takes about half a minute on one core. The same seed gives the same file, byte for byte, on the same software.

  grey edges    FastICA on luminance patches, in bands of the principal-component spectrum, so that each band
                yields Gabor-like filters of one spatial frequency.
                A. Bell, T. Sejnowski, "The independent components of natural scenes are edge filters", 1997;
                A. Hyvarinen, E. Oja, "Independent component analysis: algorithms and applications", 2000.
                The broadest edges come from k-means, as the blobs do.
  colour edges  The same on chroma patches, which finds the opponent colours.
                P. Hoyer, A. Hyvarinen, "Independent component analysis applied to feature extraction from
                colour and stereo images", 2000.
  colour blobs  Spherical k-means on whitened low-pass chroma.
                A. Coates, A. Ng, "Learning feature representations with k-means", 2012.

ICA is run on several bands and resamplings; of that pool the cleanest filters that are unlike each other are kept.
"""
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # the order of a threaded sum varies; set before NumPy loads its BLAS

import argparse
import json
import struct
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image
from sklearn.cluster import KMeans
from sklearn.decomposition import FastICA

PHOTOGRAPHS = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg")
MEAN = np.float32([0.485, 0.456, 0.406])
STD = np.float32([0.229, 0.224, 0.225])
K, STRIDE, PADDING = 11, 4, 2
ROW = 12  # filters per row of the picture
GREY_FREQUENCIES = (0.28, 0.20, 0.15, 0.11, 0.08)  # cycles per pixel: one row each, one column per orientation
ORANGE_BLUE, OTHER_EDGES, COLOUR_BLOBS = 16, 14, 6
# Bands of principal components given to ICA. A narrow band far up gives fine gratings, the first few give broad edges.
GREY_BANDS = ((0, 9), (0, 14), (2, 14), (2, 22), (6, 30), (10, 40), (20, 56), (30, 70))
GREY_LOW_PASS = (2, 5, 9)  # for k-means: so few components turn freely, and ICA would offer too few orientations
COLOUR_BANDS = ((2, 6), (2, 9), (2, 14), (2, 22), (6, 28), (8, 36))  # 0 and 1 are plain colours
RESAMPLINGS = 5
MAX_LIKENESS = 0.85  # correlation above which two filters are duplicates
ACTIVE = 0.25  # share of positions, over all photographs, at which each filter fires after ReLU

GRAPH = {
    "version": 1,
    "inputs": [{"name": "input", "dtype": "f32", "shape": ["N", 3, 224, 224]}],
    "nodes": [{"name": "features.0", "op": "conv2d", "inputs": ["input"],
               "attrs": {"stride": [STRIDE] * 2, "padding": [PADDING] * 2, "dilation": [1, 1], "groups": 1}},
              {"name": "features.1", "op": "relu", "inputs": ["features.0"]}],
    "outputs": ["features.1"]}
METADATA = {
    "format": "pt",
    "lamina.graph": json.dumps(GRAPH),
    "lamina.preprocess": json.dumps({"resize": 256, "crop": 224, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}),
    "lamina.source": "AlexNet's first layer as independent components and clusters of four photographs; by weights/train_conv1.py",
    "license": "MIT"}

yy, xx = np.mgrid[:K, :K] - K // 2
# Flat in the middle, fading to 2 % in the corners: features then sit inside the window instead of being cut by its edge.
APERTURE = np.exp(-((xx**2 + yy**2) / 5.0**2) ** 2).ravel()


def normalised(image):
    """uint8 RGB image -> float32 [H, W, 3] in the space that the convolution sees."""
    return (np.asarray(image, np.float32) / np.float32(255) - MEAN) / STD


def sample_patches(paths, rng, per_view=4000):
    """Patches [n, 3, K*K] from every photograph, turned and shrunk, so that no orientation or scale is favoured."""
    patches = []
    for path in paths:
        photo = Image.open(path).convert("RGB")
        base = 256 / min(photo.size)  # the size at which the network sees it
        for angle in (0, 22.5, 45, 67.5):
            turned = photo.rotate(angle, Image.BICUBIC)
            inside = Image.new("L", photo.size, 255).rotate(angle, Image.NEAREST)
            for scale in (1.0, 0.7, 0.5, 0.35):
                size = tuple(round(s * base * scale) for s in photo.size)
                pixels = normalised(turned.resize(size, Image.LANCZOS))
                valid = np.asarray(inside.resize(size, Image.BOX)) == 255
                ys, xs = np.nonzero(sliding_window_view(valid, (K, K)).all((2, 3)))
                pick = rng.choice(len(ys), min(len(ys), per_view), replace=False)
                patches.append(sliding_window_view(pixels, (K, K), axis=(0, 1))[ys[pick], xs[pick]])
    patches = np.concatenate(patches)
    patches[::2] = patches[::2, :, :, ::-1].copy()  # every other one mirrored
    return patches.reshape(-1, 3, K * K)


def equalised(x):
    """Drop the flattest third, which teaches nothing, and even out the contrast of the rest."""
    x = x - x.mean(0)
    contrast = x.std(1)
    keep = contrast > np.quantile(contrast, 0.35)
    return x[keep] / (contrast[keep, None] + 0.3 * np.median(contrast))


class Spectrum:
    """Principal components of patches, strongest first."""

    def __init__(self, x):
        values, vectors = np.linalg.eigh(x.T @ x / len(x))
        self.x, self.values, self.vectors = x, values[::-1], vectors[:, ::-1]

    def whitened(self, first, last, rng, count=50000):
        rows = rng.choice(len(self.x), min(count, len(self.x)), replace=False)
        return self.x[rows] @ self.vectors[:, first:last] / np.sqrt(self.values[first:last])

    def ica(self, first, last, rng):
        """Independent components of one band. Mapped back to pixels by the plain eigenvectors: halfway between the
        analysis filters (which amplify noise) and the basis functions (which blur)."""
        z = self.whitened(first, last, rng)
        ica = FastICA(whiten=False, fun="logcosh", max_iter=400, tol=1e-3, random_state=int(rng.integers(2**31)))
        return ica.fit(z).components_ @ self.vectors[:, first:last].T

    def kmeans(self, last, count, rng):
        """Cluster centres of the directions of the first components: any number of them, where ICA gives only `last`."""
        z = self.whitened(0, last, rng)
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        centres = KMeans(count, n_init=2, random_state=int(rng.integers(2**31))).fit(z).cluster_centers_
        return centres @ self.vectors[:, :last].T


def zero_mean(f):
    """Filters or patches [..., K*K] made blind to plain brightness and colour, without leaving the aperture."""
    return f - f.sum(-1, keepdims=True) * (APERTURE / APERTURE.sum())


def describe(f):
    """Frequency (cycles per pixel), orientation (radians, 0 to pi) and quality of filters [n, C, K*K].
    Quality: the share of the power spectrum close to its peak, times how well its orientations agree, less a penalty
    for sitting off centre."""
    power = (np.abs(np.fft.fft2(f.reshape(*f.shape[:2], K, K), (64, 64))) ** 2).sum(1).reshape(len(f), -1)
    power /= power.sum(1, keepdims=True)
    fy, fx = (g.ravel() for g in np.meshgrid(np.fft.fftfreq(64), np.fft.fftfreq(64), indexing="ij"))
    peak = power.argmax(1)
    near = [np.hypot(fx - sign * fx[peak, None], fy - sign * fy[peak, None]) < 0.075 for sign in (1, -1)]
    quality = (power * (near[0] | near[1])).sum(1)
    quality *= np.abs(power @ np.exp(2j * np.arctan2(fy, fx)))  # the two orientations of a clover leaf cancel here
    energy = (f**2).sum(1) / (f**2).sum((1, 2))[:, None]
    off_centre = np.hypot(energy @ xx.ravel(), energy @ yy.ravel())
    return np.hypot(fx, fy)[peak], np.arctan2(fy, fx)[peak] % np.pi, quality - 0.12 * off_centre


def correlation(a, b):
    """Correlations [n, m] of filters [n, ...] with filters [m, ...]."""
    a, b = (f.reshape(len(f), -1) for f in (a, b))
    return (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T


def choose(pool, costs, penalty):
    """For each row of costs [k, n] in turn, the cheapest filter of the pool that is unlike those chosen before."""
    chosen, worst = [], np.zeros(len(pool))
    for cost in costs:
        best = np.argmin(cost + penalty * worst**2 + 1e3 * (worst > MAX_LIKENESS))
        chosen.append(best)
        # Opposite signs count as half alike: after ReLU they see different things, but variety is better still.
        c = correlation(pool, pool[best : best + 1])[:, 0]
        worst = np.maximum(worst, np.maximum(c, -c / 2))
    return pool[chosen]


def grey_filters(patches, rng):
    """[60, 3, K*K]: rows of falling frequency, orientation turning once along each row."""
    spectrum = Spectrum(equalised(zero_mean(patches.mean(1) * APERTURE)))
    pool = [spectrum.ica(a, b, rng) for a, b in GREY_BANDS for _ in range(RESAMPLINGS)]
    pool = np.concatenate(pool + [spectrum.kmeans(last, 48, rng) for last in GREY_LOW_PASS])
    pool = zero_mean(pool[:, None])
    pool = pool[describe(pool)[2] > 0.25]  # no cell is so empty that a muddled filter should fill it
    frequency, angle, quality = describe(pool)
    costs = []
    for target in GREY_FREQUENCIES:
        octaves = np.log2(frequency / target) / 0.25
        for column in range(ROW):
            turn = (angle * ROW / np.pi - column + ROW / 2) % ROW - ROW / 2
            costs.append(turn**2 + octaves**2 - 8 * quality)
    return np.repeat(choose(pool, costs, 6), 3, axis=1)


def colour_filters(patches, rng):
    """[36, 3, K*K]: opponent-colour edges, then blobs, both by hue."""
    chroma = (patches - patches.mean(1, keepdims=True)) * APERTURE
    spectrum = Spectrum(equalised(chroma.reshape(len(chroma), -1)))
    pool = np.concatenate([spectrum.ica(a, b, rng) for a, b in COLOUR_BANDS for _ in range(RESAMPLINGS)])
    pool = zero_mean(pool.reshape(-1, 3, K * K))
    _, _, quality = describe(pool)
    # Sixths of the hue circle: the first holds the axis from orange to blue, which has most of the variance.
    opponents = np.array([hue(np.linalg.svd(f)[0][:, 0]) % np.pi // (np.pi / 3) for f in pool])
    parts = []
    for count, member in ((ORANGE_BLUE, opponents == 0), (OTHER_EDGES, opponents != 0)):
        edges = choose(pool[member], [-quality[member]] * count, 0.6)
        parts.append(edges[np.argsort(-describe(edges)[0], kind="stable")])  # from fine to broad
    blobs = spectrum.kmeans(2, COLOUR_BLOBS, rng).reshape(-1, 3, K * K)
    return np.concatenate(parts + [blobs[np.argsort([hue(b.sum(1)) for b in blobs])]])


def hue(rgb):
    """Angle of a colour in the opponent plane: 0 is red, a third of a turn is green."""
    r, g, b = rgb
    return np.arctan2(np.sqrt(3) * (g - b), 2 * r - g - b)


def responses(weight, paths):
    """What the layer answers, without bias, to the photographs preprocessed as torchvision does: [photo, 96, position]."""
    out = []
    for path in paths:
        photo = Image.open(path).convert("RGB")
        w, h = (256 * side // min(photo.size) for side in photo.size)
        x, y = round((w - 224) / 2), round((h - 224) / 2)
        image = normalised(photo.resize((w, h), Image.BILINEAR).crop((x, y, x + 224, y + 224)))
        image = np.pad(image, ((PADDING, PADDING), (PADDING, PADDING), (0, 0)))
        windows = sliding_window_view(image, (K, K), axis=(0, 1))[::STRIDE, ::STRIDE]
        out.append(weight.reshape(len(weight), -1) @ windows.reshape(-1, 3 * K * K).T)
    return np.stack(out)


def write_safetensors(path, tensors, metadata):
    """By hand, because the safetensors package stores metadata in an order that changes from run to run."""
    header, begin = {"__metadata__": metadata}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [begin, begin + t.nbytes]}
        begin += t.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # data then starts at a multiple of 8
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t.astype("<f4").tobytes() for t in tensors.values()))


def draw(weight, path, zoom=7, gap=5):
    """The filters as a 12-column picture, each scaled to [0, 1] around grey."""
    cell = K * zoom + gap
    sheet = np.full((len(weight) // ROW * cell + gap, ROW * cell + gap, 3), 24, np.uint8)
    for i, f in enumerate(weight):
        tile = Image.fromarray(np.uint8(np.rint(255 * (0.5 + 0.5 * f / np.abs(f).max()))).transpose(1, 2, 0))
        y, x = (gap + cell * j for j in divmod(i, ROW))
        sheet[y : y + K * zoom, x : x + K * zoom] = tile.resize((K * zoom, K * zoom), Image.BICUBIC)
    Image.fromarray(sheet).save(path)


def report(weight, bias, paths):
    """Print what a reader of the file may want to check."""
    y = np.maximum(responses(weight, paths) + bias[:, None], 0)
    for path, share, values in zip(paths, (y > 0).mean(2), y):
        print(f"{path.name:14} active {share.mean():.1%}, mean {values.mean():.3f}, largest {values.max():.2f}, "
              f"silent filters {(share == 0).sum()}")
    print(f"filters silent on all photographs: {(y.max((0, 2)) == 0).sum()}; on some: {(y.max(2) == 0).any(0).sum()}")
    print(f"bias {bias.min():.3f} .. {bias.max():.3f}, median {np.median(bias):.3f}; weights {weight.min():.3f} .. {weight.max():.3f}")
    print(f"most alike pair of filters: correlation {(correlation(weight, weight) - 2 * np.eye(len(weight))).max():.3f}")


def main():
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, default=root / "docs/images", metavar="DIR",
                        help=f"folder with {', '.join(PHOTOGRAPHS)} (default: docs/images of this repository)")
    parser.add_argument("--out", type=Path, default=root / "weights/alexnet-conv1.safetensors", metavar="FILE",
                        help="model file to write (default: weights/alexnet-conv1.safetensors of this repository)")
    parser.add_argument("--preview", type=Path, metavar="PNG", help="also draw the filters, 12 by 8, into this picture")
    parser.add_argument("--seed", type=int, default=2012, help="seed of every random choice (default: %(default)s)")
    args = parser.parse_args()
    paths = [args.images / name for name in PHOTOGRAPHS]
    for path in paths:
        if not path.is_file():
            parser.error(f"no photograph at {path}; name their folder with --images")

    rng = np.random.default_rng(args.seed)
    patches = sample_patches(paths, rng)
    filters = np.concatenate([grey_filters(patches, rng), colour_filters(patches, rng)]).reshape(-1, 3, K, K)

    # Unit deviation on the photographs makes the 96 maps comparable; the bias then sets how often each one fires.
    y = responses(filters, paths)
    weight = (filters / y.std((0, 2))[:, None, None, None]).astype(np.float32)
    y = responses(weight, paths)
    bias = -np.quantile(y.transpose(1, 0, 2).reshape(len(y[0]), -1), 1 - ACTIVE, axis=1).astype(np.float32)

    write_safetensors(args.out, {"features.0.bias": bias, "features.0.weight": weight}, METADATA)
    if args.preview:
        draw(weight, args.preview)
    report(weight, bias, paths)


if __name__ == "__main__":
    main()
