#!/usr/bin/env python3
"""Learn the first layer of an AlexNet, 96 colour filters of 3x11x11, from four photographs.

No labels and no gradient descent: the filters are the independent components of natural images.

  grey edges    FastICA on luminance patches, in bands of the principal-component spectrum, so that each band
                yields Gabor-like filters of one spatial frequency.
                A. Bell, T. Sejnowski, "The independent components of natural scenes are edge filters", 1997;
                A. Hyvarinen, E. Oja, "Independent component analysis: algorithms and applications", 2000.
  colour edges  The same on chroma patches, which finds the opponent colours.
                P. Hoyer, A. Hyvarinen, "Independent component analysis applied to feature extraction from
                colour and stereo images", 2000.
  colour blobs  Spherical k-means on whitened low-pass chroma.
                A. Coates, A. Ng, "Learning feature representations with k-means", 2012.

ICA is run on several bands and resamplings; out of that pool the script keeps the cleanest filters that are unlike each other.
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
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.decomposition import FastICA

PHOTOGRAPHS = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg")
MEAN = np.float32([0.485, 0.456, 0.406])
STD = np.float32([0.229, 0.224, 0.225])
K, STRIDE, PADDING = 11, 4, 2
GREY_ROWS, ROW = 5, 12  # 60 grey filters: one row per frequency, one column per orientation
COLOUR_EDGES, COLOUR_BLOBS = 24, 12
ACTIVE = 0.25  # share of positions, over all photographs, at which each filter fires after ReLU

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
    patches = np.concatenate(patches).reshape(-1, 3, K * K)
    mirrored = patches.reshape(-1, 3, K, K)[::2, :, :, ::-1].reshape(-1, 3, K * K)
    patches[::2] = mirrored.copy()
    return patches


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
        z = self.whitened(0, last, rng)
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        centres = KMeans(count, n_init=4, random_state=int(rng.integers(2**31))).fit(z).cluster_centers_
        return centres @ self.vectors[:, :last].T


def describe(f):
    """Frequency (cycles per pixel), orientation (radians, 0 to pi) and quality of filters [n, C, K*K].
    Quality: the share of the power spectrum close to its peak, less a penalty for sitting off centre."""
    n = len(f)
    size = 64
    power = (np.abs(np.fft.fft2(f.reshape(n, -1, K, K), (size, size))) ** 2).sum(1).reshape(n, -1)
    freq = np.fft.fftfreq(size)
    fy, fx = (g.ravel() for g in np.meshgrid(freq, freq, indexing="ij"))
    peak = power.argmax(1)
    distance = np.hypot(fx - fx[peak, None], fy - fy[peak, None])
    mirror = np.hypot(fx + fx[peak, None], fy + fy[peak, None])
    near = np.minimum(distance, mirror) < 0.075
    quality = (power * near).sum(1) / power.sum(1)
    energy = (f**2).sum(1)
    energy /= energy.sum(1, keepdims=True)
    off_centre = np.hypot(energy @ xx.ravel(), energy @ yy.ravel())
    return np.hypot(fx, fy)[peak], np.arctan2(fy, fx)[peak] % np.pi, quality - 0.12 * off_centre


def likeness(f):
    """Largest absolute correlation of each pair of filters [n, C, K*K] over all shifts."""
    n = len(f)
    spectrum = np.fft.rfft2(f.reshape(n, -1, K, K), (2 * K, 2 * K))
    norm = np.sqrt((f**2).sum((1, 2)))
    out = np.empty((n, n))
    for i in range(n):
        cross = np.fft.irfft2((spectrum * spectrum[i].conj()).sum(1), (2 * K, 2 * K))
        out[i] = np.abs(cross).max((1, 2)) / (norm * norm[i])
    return out


def grey_filters(patches, rng):
    """[60, 3, K*K]: rows of falling frequency, orientation turning once along each row."""
    grey = patches.mean(1)
    grey = (grey - (grey @ APERTURE / APERTURE.sum())[:, None]) * APERTURE
    spectrum = Spectrum(equalised(grey))
    bands = ((2, 14), (2, 22), (6, 30), (10, 40), (20, 56), (30, 70), (40, 84))
    pool = np.concatenate([spectrum.ica(a, b, rng) for a, b in bands for _ in range(4)])
    pool -= (pool.sum(1) / APERTURE.sum())[:, None] * APERTURE  # an edge filter must not see brightness
    frequency, angle, quality = describe(pool[:, None])
    rows = []
    for target in np.geomspace(0.30, 0.09, GREY_ROWS):
        columns = np.arange(ROW) * np.pi / ROW
        turn = np.abs(angle[:, None] - columns)
        turn = np.minimum(turn, np.pi - turn) / (np.pi / ROW)
        octave = np.log2(frequency / target)[:, None] / 0.25
        pick, column = linear_sum_assignment(turn**2 + octave**2 - 6 * quality[:, None])
        rows.append(pool[pick[np.argsort(column)]])
        quality[pick] = -9  # each only once
    return np.repeat(np.concatenate(rows)[:, None], 3, axis=1)


def colour_filters(patches, rng):
    """[36, 3, K*K]: opponent-colour edges by hue, then blobs by hue."""
    chroma = (patches - patches.mean(1, keepdims=True)) * APERTURE
    spectrum = Spectrum(equalised(chroma.reshape(len(chroma), -1)))
    bands = ((2, 12), (2, 20), (6, 28), (8, 36))
    pool = np.concatenate([spectrum.ica(a, b, rng) for a, b in bands for _ in range(4)]).reshape(-1, 3, K * K)
    _, _, quality = describe(pool)
    alike = likeness(pool)
    order = np.argsort(-quality)
    for limit in np.arange(0.30, 1.0, 0.02):  # the strictest limit that still fills the rows
        chosen = []
        for i in order[: len(order) // 2]:
            if len(chosen) < COLOUR_EDGES and (not chosen or alike[i, chosen].max() < limit):
                chosen.append(i)
        if len(chosen) == COLOUR_EDGES:
            break
    print("colour limit", limit)
    edges = pool[chosen]
    blobs = spectrum.kmeans(6, COLOUR_BLOBS, rng).reshape(-1, 3, K * K)
    edges = edges[np.argsort([hue(e) for e in edges])]
    blobs = blobs[np.argsort([hue(b) for b in blobs])]
    return np.concatenate([edges, blobs])


def hue(f):
    """Angle of the strongest pixel's colour in the opponent plane."""
    r, g, b = f[:, (f**2).sum(0).argmax()]
    return np.arctan2(np.sqrt(3) * (g - b), 2 * r - g - b)


def convolve(weight, paths):
    """Responses [96, positions] of the layer without bias to the photographs, preprocessed as torchvision does."""
    out = []
    for path in paths:
        photo = Image.open(path).convert("RGB")
        short = min(photo.size)
        w, h = (int(256 * s / short) for s in photo.size)
        x, y = round((w - 224) / 2), round((h - 224) / 2)
        image = normalised(photo.resize((w, h), Image.BILINEAR).crop((x, y, x + 224, y + 224)))
        image = np.pad(image, ((PADDING, PADDING), (PADDING, PADDING), (0, 0)))
        windows = sliding_window_view(image, (K, K), axis=(0, 1))[::STRIDE, ::STRIDE]
        out.append(weight.reshape(96, -1) @ windows.reshape(-1, 3 * K * K).T)
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


def main():
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, default=root / "docs/images")
    parser.add_argument("--out", type=Path, default=root / "weights/alexnet-conv1.safetensors")
    parser.add_argument("--preview", type=Path)
    parser.add_argument("--seed", type=int, default=2012)
    args = parser.parse_args()
    paths = [args.images / name for name in PHOTOGRAPHS]
    rng = np.random.default_rng(args.seed)
    patches = sample_patches(paths, rng)
    filters = np.concatenate([grey_filters(patches, rng), colour_filters(patches, rng)]).reshape(96, 3, K, K)
    if args.preview: draw(filters, args.preview)


if __name__ == "__main__":
    main()
