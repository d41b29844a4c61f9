"""Ray Data on a cluster of two nodes of one machine: every row once, with the bits of one process, whatever dies."""

import os
import resource
import runpy
import signal
from pathlib import Path

import lamina
import pytest

from conftest import ROOT

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
import lamina.ray  # noqa: E402

MODEL = str(ROOT / "weights/digits.safetensors")


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    path = os.pathsep.join([str(ROOT / "python/tests"), os.environ.get("PYTHONPATH", "")])
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    nodes.add_node(num_cpus=2)
    ray.init(address=nodes.address, runtime_env={"env_vars": {"PYTHONPATH": path}}, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """200 photographs, one of which cannot be decoded."""
    folder = tmp_path_factory.mktemp("photographs")
    digits = sorted((ROOT / "weights/digits").glob("*.png"))
    for i in range(199):
        (folder / f"{i:03}.png").write_bytes(digits[i % 10].read_bytes())
    (folder / "broken.png").write_bytes(digits[0].read_bytes()[:200])
    return folder


@pytest.fixture(scope="module")
def expected(folder):
    rows = lamina.load(MODEL).classify(folder, top=3, threads=1)
    return {row.photo: ([name for name, _ in row.classes], [score for _, score in row.classes], row.error is None)
            for row in rows}


class Dies(lamina.ray.Classifier):
    """Is killed in the middle, once."""

    def __init__(self, model, marker):
        super().__init__(model, top=3, batch=8)
        self.marker, self.batches = marker, 0

    def __call__(self, batch):
        self.batches += 1
        if self.batches == 3:
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)


def check(rows, expected):
    assert len(rows) == len(expected) == 200
    got = {row["path"]: (list(row["classes"]), list(row["scores"]), row["error"] is None) for row in rows}
    assert got == expected
    assert sum(row["error"] is not None and "broken" not in row["error"] for row in rows) <= 1


def files(folder):
    return ray.data.read_binary_files(str(folder), include_paths=True, num_cpus=0.25)


def test_the_bits_of_one_process(cluster, folder, expected):
    pictures = files(folder).map_batches(lamina.ray.Decoder, fn_constructor_args=(MODEL,), batch_size=16, concurrency=1,
                                         num_cpus=0.25)
    rows = pictures.map_batches(lamina.ray.Classifier, fn_constructor_args=(MODEL,),
                                fn_constructor_kwargs={"top": 3, "batch": 8}, batch_size=16, concurrency=2,
                                num_cpus=0.25)
    check(rows.take_all(), expected)


def test_a_worker_is_killed(cluster, folder, expected, tmp_path):
    marker = tmp_path / "died"
    rows = files(folder).map_batches(Dies, fn_constructor_args=(MODEL, str(marker)), batch_size=8, concurrency=2,
                                     num_cpus=0.25)
    check(rows.take_all(), expected)
    assert marker.exists()


class Starved(lamina.ray.Classifier):
    """Has 256 MB more than its process takes already, while it opens the model."""

    def __init__(self, model, batch):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (256 << 20), before[1]))
        try:
            super().__init__(model, batch=batch)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("actor, batch, words", [
    (Starved, 1 << 15, "lamina.Error: out of memory: asked for"),
    (lamina.ray.Classifier, 1 << 40, "lamina.Error: input: a value of .* is too large")])
def test_an_actor_out_of_memory(cluster, folder, actor, batch, words):
    """The job ends and says why; a smaller batch goes."""

    def rows(batch):
        return files(folder).map_batches(actor, fn_constructor_args=(MODEL,), fn_constructor_kwargs={"batch": batch},
                                         batch_size=8, concurrency=1, num_cpus=0.25)

    with pytest.raises(Exception, match=words):
        rows(batch).take_all()
    assert rows(8).count() == 200


def test_the_example(cluster, folder, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["ray_classify.py", str(folder), str(tmp_path / "out"), "--model", MODEL, "--top",
                                     "3", "--batch", "8"])
    runpy.run_path(str(ROOT / "examples/ray_classify.py"), run_name="__main__")
    assert "200 photographs" in capsys.readouterr().out
    check(ray.data.read_parquet(str(tmp_path / "out")).take_all(), expected)
