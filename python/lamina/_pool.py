"""Plans on every device behind one queue."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from . import _core
from ._network import Network
from ._signatures import options_but

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._options import CompileOptions


class Answer(Future[Any]):
    """What a request gives: .result(), or await."""

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio  # which takes a while, and few need
        return asyncio.wrap_future(self).__await__()


class Pool:
    """Plans of one model on several devices, and a queue in front of them.

    Any number of threads submit requests of one image or more; batches form of what waits, and whichever plan is free
    computes them. A batch that fails is redone, each request by itself; a GPU that is lost is used no more.

    devices: "all" (every GPU, or the CPU if there is none), or such as "cuda:0,cuda:2". plans_per_device: 0 is two on a
    GPU and one on the CPU. batches: sizes to compile plans for, a batch runs in the smallest that holds it; `batch` alone
    if empty. max_delay: seconds that the first request of a batch may wait for others. max_queue: images that may wait;
    then submit waits, or raises PoolFull with wait_when_full=False. The other keywords are those of Model.compile.
    """

    @options_but("device")
    def __init__(self, model: Network, devices: str = "all", *, plans_per_device: int = 0, batches: Sequence[int] = (),
                 max_delay: float = 0.0, max_queue: int = 1024, wait_when_full: bool = True,
                 **options: Unpack[CompileOptions]) -> None:
        if not isinstance(model, Network):
            raise TypeError(f"model: expected a lamina.Model, got {type(model).__name__}")
        self._pool = _core.make_pool(model.graph, model.preprocess, devices, plans_per_device, list(batches), max_delay,
                                     max_queue, wait_when_full, **options)

    def submit(self, x: Any, *, copy: bool = True) -> Answer:
        """The outputs, as Plan.run gives them, once they are computed: await pool.submit(x), or .result().

        x: arrays on the host, as for Plan.run, of up to max_batch images. They are copied, and may change at once;
        with copy=False they are read where they are, and must not change until the future is done. What does not fit
        raises Error here, what fails later raises it from the future.
        """
        future = Answer()
        self._pool.submit(x, future, copy)
        return future

    def __call__(self, x: Any) -> Any:
        """The outputs, waited for."""
        return self.submit(x, copy=False).result()

    @property
    def input_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of a request of max_batch images."""
        return self._pool.input_shapes

    @property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of a request of max_batch images."""
        return self._pool.output_shapes

    @property
    def max_batch(self) -> int:
        """The most images that a request may have."""
        return self._pool.max_batch

    @property
    def waiting(self) -> int:
        """Images that wait."""
        return self._pool.waiting

    def workers(self) -> list[_core.PoolWorker]:
        """What each plan has done."""
        return self._pool.workers()

    def close(self) -> None:
        """Accepts nothing more, and returns when what was accepted is answered."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<lamina.Pool of {len(self.workers())} plans, up to {self.max_batch} images at a time>"
