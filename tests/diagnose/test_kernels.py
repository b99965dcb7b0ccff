"""Kernel names of several architectures and libraries, and what is read from them."""

from __future__ import annotations

import polars as pl
import pytest

from unstall.diagnose import gpus, kernels
from unstall.diagnose.compute_bound import traffic

FP32 = [
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>(T1::Params)",
    "void cutlass::Kernel<cutlass_75_simt_sgemm_128x128_nn_align1>(T1::Params)",
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize256x64x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel",
    "ampere_sgemm_128x64_nn", "volta_sgemm_128x32_tn", "maxwell_sgemm_128x64_nt", "turing_sgemm_32x128_nn",
    "void magma_sgemmEx_kernel<float, float, float, false, true, 6, 4, 6, 3, 4>(int, int, int, Tensor, int)",
    "void sgemm_largek_lds64<(bool)1, (bool)0, (int)5, (int)5, (int)4, (int)4, (int)4, (int)34>(float *)",
    "volta_scudnn_128x64_relu_medium_nn_v1", "ampere_scudnn_128x128_relu_interior_nn_v1",
    "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nhwc_tilesize128x128x8_stage3_ffma_kernel",
    "matmul_kernel_fp32", "triton_gemm_f32_128x128",
]  # fmt: skip
TENSOR = [
    "ampere_sgemm_tf32_128x64", "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_stage3_tensor16x8x8_kernel",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x128_16x3_nt_align4>(T1::Params)",
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn",
    "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT", "turing_h1688gemm_128x128_nn",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_warpgroupsize2x1x1_execute_segment_k_off_kernel",
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x64x16_stage4_kernel",
    "triton_tem_fused_addmm_0", "void gemv2T_kernel_val<int, int, float, float, float, 128, 16>(float)",
]  # fmt: skip
FAMILY = {
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)": kernels.COMMUNICATION,
    "ncclKernel_ReduceScatter_RING_LL_Sum_float": kernels.COMMUNICATION,
    "void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, false, true>(int)": kernels.LAYOUT,
    "void cudnn::ops::nhwcToNchwKernel<float, float, float, false>(int)": kernels.LAYOUT,
    "void nhwcToFoldedNhwcKernel<__half, __half, float, true>": kernels.LAYOUT,
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)": kernels.ATTENTION,
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)": kernels.ATTENTION,
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128": kernels.ATTENTION,
    "void <unnamed>::softmax_warp_forward<float, float, float, (int)7, (bool)0, (bool)0>(T2 *)": kernels.SOFTMAX,
    "void <unnamed>::softmax_warp_backward<float, float, float, (int)7, (bool)1, (bool)0>(T2 *)": kernels.LOG_SOFTMAX,
    "softmax_warp_forward<float, float, float, 10, true, false>": kernels.LOG_SOFTMAX,
    "void at::native::<unnamed>::cunn_SoftMaxForward<4, float, float, float, LogSoftMaxForwardEpilogue>":
        kernels.LOG_SOFTMAX,
    "void at::native::<unnamed>::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor>":
        kernels.OPTIMIZER,
    "void at::native::<unnamed>::vectorized_layer_norm_kernel<float, float, (bool)0>(int)": kernels.NORM,
    "void at::native::batch_norm_collect_statistics_kernel<InvStd, float, float, float, int>": kernels.NORM,
    "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, MeanOps>>(T3)": kernels.REDUCTION,
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>>": kernels.ELEMENTWISE,
    "triton_poi_fused_add_gelu_3": kernels.ELEMENTWISE, "triton_red_fused_sum_2": kernels.REDUCTION,
    "loop_add_fusion_12": kernels.ELEMENTWISE, "input_reduce_fusion_3": kernels.REDUCTION,
    "my_own_kernel": kernels.OTHER,
}  # fmt: skip


@pytest.mark.parametrize("name", FP32)
def test_fp32_products_on_cuda_cores_are_recognised(name: str) -> None:
    assert kernels.is_fp32(name)


@pytest.mark.parametrize("name", TENSOR)
def test_tensor_core_products_and_memory_bound_ones_are_not(name: str) -> None:
    assert not kernels.is_fp32(name)


@pytest.mark.parametrize("name", FAMILY)
def test_family(name: str) -> None:
    assert kernels.family(name) == FAMILY[name]


def test_families_of_a_column_keep_nulls_apart() -> None:
    got = kernels.families(pl.Series(["ampere_sgemm_128x64_nn", None, "ampere_sgemm_128x64_nn"]))
    assert got.to_list() == [kernels.FP32_GEMM, kernels.OTHER, kernels.FP32_GEMM]


def test_short_names_say_what_the_kernel_does() -> None:
    add = (
        "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>, std::array<char *>>"
    )
    assert kernels.short(add) == "vectorized_elementwise_kernel (CUDAFunctor_add)"
    inside = "PyTorchMemEffAttention::AttentionBackwardKernel<cutlass::arch::Sm80, float, (bool)1>::Params"
    name = "fmha_cutlassB_f32_aligned_128x64_k128_sm80"
    assert kernels.short(f"{name}({inside})") == name, "a template of somebody else's is no wrapper of CUTLASS"
    assert kernels.short(FP32[0]) == "cutlass_80_simt_sgemm_256x128_8x4_nt_align1"
    assert len(kernels.short("x" * 500)) == 60


def gpu(name: str, major: int | None = 9) -> gpus.Peaks:
    frame = pl.DataFrame({"device": [0], "name": [name], "compute_major": [major]})
    return gpus.peaks(frame, 0)


def test_peaks_by_name_and_cautious_without() -> None:
    assert gpu("NVIDIA H200").tf32 / gpu("NVIDIA H200").fp32 > 7
    assert gpu("NVIDIA A100-SXM4-80GB").fp32 == 19.5
    assert gpu("NVIDIA H100 PCIe").link == 55
    assert gpu("NVIDIA GeForce RTX 4090", 8).tf32 == gpu("NVIDIA GeForce RTX 4090", 8).fp32
    assert gpu("Tesla V100-SXM2-16GB", 7).tf32 == 0
    unknown = gpu("NVIDIA Something New", 10)
    assert not unknown.known and unknown.tf32 / unknown.fp32 <= 2
    assert not gpus.peaks(None, 0).known and gpus.name_of(None, 0) == "the GPU"


def test_traffic_of_an_elementwise_kernel_follows_from_its_launch() -> None:
    """2048 × 8192 floats, two read and one written, in 44 µs: 201 MB, near the peak of an H200."""
    name = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>, std::array<char *, (unsigned long)3>>(int, T2, T3)"  # noqa: E501
    assert traffic(name, 16384, 44_000, 4.8e12) == pytest.approx(4.576e12, rel=0.01)
    assert traffic(name, 16384, 22_000, 4.8e12) == pytest.approx(4.576e12, rel=0.01), "512 elements a block fit then"
    assert traffic("some_kernel", 16384, 44_000, 4.8e12) == 0.0


@pytest.mark.parametrize("part", ["k", "f32", "gemm_", "a::", "<a", "(a)", "float, ", "_"])
def test_a_name_of_thousands_of_letters_is_decided(part: str) -> None:
    """Patterns that try again at each letter took from 3 s to 2 min a name, and templates do make such names."""
    assert kernels.family(part * (5000 // len(part))) in (kernels.OTHER, kernels.GEMM)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("conv2d_forward_kernel", kernels.CONV),
        ("conv_then_gemm_kernel", kernels.CONV),
        ("conv1d_grouped_kernel_matmul_bf16", kernels.TENSOR_GEMM),
    ],
)
def test_a_convolution_by_its_word_alone_is_none_where_a_product_follows(name: str, family: str) -> None:
    assert kernels.family(name) == family
