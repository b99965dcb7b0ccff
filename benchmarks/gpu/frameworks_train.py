"""Training loops without PyTorch. usage: frameworks_train.py jax|cupy healthy|loading|launch STEPS

*healthy* computes all the time, *loading* sleeps 8 ms and copies pageable memory before each step, *launch* runs many
small operations. None of them writes NVTX ranges but *loading*, which names its loading.
"""

import contextlib
import sys
import time

import numpy as np

framework, case, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
width = 256 if case == "launch" else 4096
rng = np.random.default_rng(0)
host = rng.standard_normal((width, width), dtype=np.float32)


@contextlib.contextmanager
def named(name):
    with contextlib.suppress(ImportError):
        import nvtx

        nvtx.push_range(name)
        yield
        nvtx.pop_range()
        return
    yield


def load():
    with named("data_load"):
        time.sleep(0.008)
        return host + np.float32(1)


def with_jax():
    import jax
    import jax.numpy as jnp

    weights = [jnp.asarray(rng.standard_normal((width, width), dtype=np.float32) * 0.01) for _ in range(6)]

    def loss(w, x):
        for layer in w:
            x = jax.nn.gelu(x @ layer)
        return (x * x).mean()

    @jax.jit
    def step(w, x):
        grads = jax.grad(loss)(w, x)
        return [a - 0.01 * g for a, g in zip(w, grads, strict=True)]

    x = jnp.asarray(host)
    for _ in range(steps):
        if case == "loading":
            x = jax.device_put(load())
        if case == "launch":
            for k in range(100):
                x = jnp.tanh(x) + k  # outside of jit: a launch each
        else:
            weights = step(weights, x)
        if case == "loading":
            jax.block_until_ready(weights)
    jax.block_until_ready((weights, x))


def with_cupy():
    import cupy as cp

    weights = [cp.asarray(rng.standard_normal((width, width), dtype=np.float32) * 0.01) for _ in range(6)]
    x = cp.asarray(host)
    for _ in range(steps):
        if case == "loading":
            x = cp.asarray(load())
        if case == "launch":
            for k in range(100):
                x = cp.tanh(x) + k
            continue
        for i, layer in enumerate(weights):
            y = cp.tanh(x @ layer)
            weights[i] = layer - 1e-4 * (x.T @ y)
            x = y
        if case == "loading":
            cp.cuda.Device().synchronize()
    cp.cuda.Device().synchronize()


(with_jax if framework == "jax" else with_cupy)()
