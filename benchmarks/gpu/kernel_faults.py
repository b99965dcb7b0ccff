"""Kernels that have one fault each, for `unstall kernel`. usage: kernel_faults.py CASE [LAUNCHES]

Written in CUDA C and compiled by CuPy at run time; *fp32_product* is cuBLAS through torch, without TF32.
"""

import sys

SOURCE = r"""
extern "C" {
__global__ void healthy_add(const float4* a, const float4* b, float4* c, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) { float4 x = a[i], y = b[i]; c[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w); }
}
__global__ void strided_read(const float* a, float* c, long n) {          // 128 bytes apart: one value a sector
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    c[i] = a[(i * 32) % n];
}
__global__ void branchy(float* c, int rounds) {                            // lane 31 works 32 times as long as lane 0
    float x = threadIdx.x;
    int lane = threadIdx.x % 32;
    for (int k = 0; k < rounds * (lane + 1); ++k) x = x * 1.0001f + 0.5f;
    c[blockIdx.x * (long)blockDim.x + threadIdx.x] = x;
}
__global__ void bank_column(float* c, int rounds) {                        // a column of 32 x 32: all in one bank
    __shared__ float tile[32 * 32];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) tile[k] = k;
    __syncthreads();
    float x = 0;
    int row = threadIdx.x % 32;
    for (int k = 0; k < rounds; ++k) { x += tile[row * 32 + ((k + rounds) & 31)]; }
    c[blockIdx.x * (long)blockDim.x + threadIdx.x] = x;
}
__global__ void hungry_shared(const int* next, int* c, int rounds) {       // 100 kB a block; a chain of loads
    extern __shared__ int kept[];
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * 17;
    for (int k = 0; k < rounds; ++k) at = next[at & 0xffffff];
    kept[threadIdx.x] = at;
    c[blockIdx.x * blockDim.x + threadIdx.x] = kept[threadIdx.x];
}
__global__ void few_blocks(float* c, int rounds) {
    float x = threadIdx.x, y = 1.5f;
    for (int k = 0; k < rounds; ++k) { x = x * 1.0001f + 0.5f; y = y * 0.9999f + x; }
    c[blockIdx.x * blockDim.x + threadIdx.x] = x + y;
}
__global__ void __launch_bounds__(1024) last_wave(float* c, int rounds) {
    float x = threadIdx.x, y = 1.5f, z = 2.5f, w = 3.5f;
    for (int k = 0; k < rounds; ++k) {
        x = x * 1.0001f + 0.5f; y = y * 0.9999f + 0.5f; z = z * 1.0002f + 0.5f; w = w * 0.9998f + 0.5f;
    }
    c[blockIdx.x * (long)blockDim.x + threadIdx.x] = x + y + z + w;
}
}
"""


def main(case: str, launches: int) -> None:
    if case == "fp32_product":
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        a = torch.randn(4096, 4096, device="cuda")
        for _ in range(launches):
            a @ a
        return torch.cuda.synchronize()
    import cupy as cp

    kernel = cp.RawModule(code=SOURCE).get_function(case)
    n = 1 << 26
    sms = cp.cuda.Device().attributes["MultiProcessorCount"]
    big, out = cp.ones(n, cp.float32), cp.empty(n, cp.float32)
    plans = {
        "healthy_add": lambda: kernel((n // 4 // 256,), (256,), (big, big, out, cp.int64(n // 4))),
        "strided_read": lambda: kernel((n // 32 // 256,), (256,), (big, out, cp.int64(n))),
        "branchy": lambda: kernel((sms * 32,), (256,), (out, cp.int32(200))),
        "bank_column": lambda: kernel((sms * 16,), (256,), (out, cp.int32(2000))),
        "hungry_shared": lambda: kernel((sms * 16,), (64,), (chain, ints, cp.int32(200)), shared_mem=100 << 10),
        "few_blocks": lambda: kernel((8,), (256,), (out, cp.int32(20000))),
        "last_wave": lambda: kernel((sms * 2 + 12,), (1024,), (out, cp.int32(4000))),
    }
    chain, ints = cp.random.permutation(1 << 24).astype(cp.int32), cp.empty(1 << 20, cp.int32)
    if case == "hungry_shared":
        kernel.max_dynamic_shared_size_bytes = 100 << 10
    for _ in range(launches):
        plans[case]()
    cp.cuda.Device().synchronize()
    return None


main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 12)
