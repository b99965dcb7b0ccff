"""Whose terms a remedy is given in."""

from __future__ import annotations

import pytest

from unstall.analyze import analyze
from unstall.diagnose import diagnose, frameworks
from unstall.model import Finding
from unstall.testing import TraceBuilder, ms, us

TORCH = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"


@pytest.mark.parametrize(
    ("names", "process", "expected"),
    [
        ([TORCH, "ampere_sgemm_128x64_tn"], "python3", "pytorch"),
        (["triton_poi_fused_add_gelu_0", "nvjet_tst_128x256"], "python3", "pytorch"),
        (["loop_multiply_fusion", "gemm_fusion_dot_3", "wrapped_add", "nvjet_tst_128x256"], "python3", "jax"),
        (["XlaModule:#hlo_module=jit_step,program_id=12#", "TSL", "cutlass_80_wmma"], "python3", "jax"),
        (["input_reduce_fusion_1", "fusion_12"], "python3.12", "jax"),
        (["cupy_multiply__float32_float32_float32", "cupy_copy__float32_float32", "ampere_sgemm_128x64_tn"], "python",
         "cupy"),
        (["my_kernel"], "./simulate", "cuda"),
        (["my_kernel"], "python3", "pytorch"),
        (["fusion_reactor", TORCH, "void c10::x()"], "python3", "pytorch"),
        ([], "", "cuda"),
    ],
)  # fmt: skip
def test_recognised_by_what_each_framework_writes(names: list[str], process: str, expected: str) -> None:
    assert frameworks.recognised(names, process) == expected


def finding(kernel: str, code: str, language: str = "en", domain: str = "") -> Finding:
    """Loading of 20 ms on the main thread, pageable copies, many small kernels."""
    t = TraceBuilder()

    def body(b: TraceBuilder, i: int, at: int) -> None:
        b.range(f"step_{i}", at, at + ms(29))
        b.range("data_load", at, at + ms(20))
        if domain:
            b.range("XlaModule:#hlo_module=jit_step#", at + ms(21), at + ms(28), domain=domain)
        b.copy("HtoD", at + ms(20), ms(1), copy_dur=ms(1) - us(1), bytes=1 << 24)
        for k in range(200):
            b.launch(kernel, at + ms(21) + k * us(30), us(8), kernel_dur=us(3))
        b.sync("stream", at + ms(28), at + ms(28) + us(10))

    t.steps(8, ms(30), body)
    found = {f.code: f for f in diagnose(analyze(t.profile()), language=language).findings}
    return found[code]


def test_cupy_gets_cupys_words() -> None:
    fix = finding("cupy_add__float32_float32_float32", "launch-bound").fix
    assert "cupy.fuse" in fix.text and "torch" not in fix.text
    assert fix.trial is None and fix.patch is None, "trials and patches are for PyTorch scripts"
    assert "cupyx.empty_pinned" in finding("cupy_add__float32", "host-data-loading").fix.text
    korean = finding("cupy_add__float32_float32_float32", "launch-bound", "ko").fix
    assert "@cupy.fuse" in korean.text and any("가" <= c <= "힣" for c in korean.text)
    assert "torch" not in fix.title + korean.title


def test_jax_gets_jaxs_words_even_where_kernels_are_cublass() -> None:
    assert "jax.jit" in finding("nvjet_tst_128x256", "launch-bound", domain="TSL").fix.text
    loading = finding("loop_add_fusion", "host-data-loading").fix
    assert "tf.data" in loading.text and loading.patch is None


def test_pytorch_keeps_its_patches() -> None:
    assert finding(TORCH, "host-data-loading").fix.patch == "dataloader"
