"""Korean: why a kernel is slow (``unstall kernel``)."""

from __future__ import annotations

TEXTS = {
    # 요약
    "Memory limits: {memory} of peak, arithmetic {compute}.": "메모리가 한계: 최대치의 {memory}, 연산은 {compute}.",
    "Arithmetic limits: {compute} of peak, memory {memory}.": "연산이 한계: 최대치의 {compute}, 메모리는 {memory}.",
    "Nothing is near its limit (arithmetic {compute}, memory {memory}): it waits.": (
        "어느 것도 한계에 가깝지 않습니다(연산 {compute}, 메모리 {memory}). 커널이 기다리고 있습니다."
    ),
    "What limits cannot be told: the counters of arithmetic and memory are missing.": (
        "무엇이 한계인지 알 수 없습니다: 연산과 메모리의 카운터가 없습니다."
    ),
    # 표
    "ROOFLINE": "루프라인",
    "percent of the hardware's peak": "하드웨어 최대치에 대한 비율",
    "WHY IT IS SLOW": "느린 이유",
    "most to change first": "먼저 바꿀 것부터",
    "arithmetic": "연산",
    "tensor cores": "텐서 코어",
    "memory": "메모리",
    "L1, shared": "L1·공유 메모리",
    "L1 and shared memory": "L1·공유 메모리",
    "named by you": "직접 지정함",
    "takes the most kernel time": "커널 시간을 가장 많이 씀",
    "takes the most time of the launches that were measured": "측정한 실행 중 시간을 가장 많이 씀",
    "named by the finding {code}": "발견 사항 {code}에서 지목함",
    "{n} launches measured": "실행 {n}번 측정",
    "one launch measured": "실행 한 번 측정",
    "{time} each": "한 번에 {time}",
    "grid {grid}, block {block}": "그리드 {grid}, 블록 {block}",
    "DRAM traffic {rate}": "DRAM 전송 {rate}",
    "fp32 {rate}": "fp32 {rate}",
    "{have} FLOP a byte, the ridge is at {ridge}: {side:said}": "바이트당 {have} FLOP, 능선은 {ridge}: {side:said}",
    "memory is its roof": "메모리가 지붕",
    "arithmetic is its roof": "연산이 지붕",
    "occupancy {share}": "점유율 {share}",
    "of at most {share}": "최대 {share}",
    " (limited by {what:said})": "(한계: {what:said})",
    "{n} registers a thread": "스레드당 레지스터 {n}개",
    "{n} waves": "웨이브 {n}",
    "registers": "레지스터",
    "shared memory": "공유 메모리",
    "block size": "블록 크기",
    "blocks an SM": "SM당 블록 수",
    "its counters are not in this measurement: this GPU or this ncu does not offer them": (
        "이 측정에 해당 카운터가 없습니다: 이 GPU나 ncu가 제공하지 않습니다"
    ),
    # 근거
    "Arithmetic reaches {compute} of its peak, memory {memory}": "연산은 최대치의 {compute}, 메모리는 {memory}",
    "Of their peaks: {levels}": "각 최대치에 대한 비율: {levels}",
    "{share} of the waiting between instructions is for {what:said}": "명령 사이 대기의 {share}: {what:said}",
    "Loads use {used} of each 32-byte sector": "읽기가 32바이트 섹터마다 {used}만 씀",
    "Stores fill {used} of each 32-byte sector": "쓰기가 32바이트 섹터마다 {used}만 채움",
    "{sectors} sectors a request (4 are enough for fp32)": "요청당 섹터 {sectors}개(fp32라면 4개로 충분)",
    "{share} of the passes over shared memory only repeat for bank conflicts ({ways} threads to a bank)": (
        "공유 메모리 접근의 {share}가 뱅크 충돌로 인한 반복(뱅크 하나에 스레드 {ways}개)"
    ),
    "{threads} of the 32 threads of a warp take part in an instruction": "워프 스레드 32개 중 {threads}개만 참여",
    "Tensor cores are busy {tensor} of the time, the fp32 units {fma}": "텐서 코어 사용 {tensor}, fp32 장치 사용 {fma}",
    "{blocks} blocks for {sms} multiprocessors": "멀티프로세서 {sms}개에 블록 {blocks}개",
    "{waves} waves: blocks over what all multiprocessors hold at once": (
        "웨이브 {waves}: 블록 수를 모든 멀티프로세서가 한 번에 담는 수로 나눈 값"
    ),
    "the last wave leaves {share} of the GPU's time unused": "마지막 웨이브가 GPU 시간의 {share}를 놀림",
    "At most {theoretical} of an SM's warps fit, {achieved} are there on average": (
        "SM 워프의 최대 {theoretical}까지 들어가고, 평균은 {achieved}"
    ),
    "{n} kB of shared memory a block": "블록당 공유 메모리 {n} kB",
    "{achieved} of an SM's warps are there on average, {theoretical} would fit": (
        "SM 워프의 평균 {achieved}, 들어갈 수 있는 것은 {theoretical}"
    ),
    # 대기의 종류
    "data from global memory (long scoreboard)": "전역 메모리의 데이터(long scoreboard)",
    "shared memory or special functions (short scoreboard)": "공유 메모리나 특수 함수(short scoreboard)",
    "the other warps of their block, at a barrier": "장벽에서 블록의 다른 워프",
    "the queue for global memory (LG throttle)": "전역 메모리 큐(LG throttle)",
    "the queue for shared memory and special functions (MIO throttle)": "공유 메모리·특수 함수 큐(MIO throttle)",
    "the texture queue": "텍스처 큐",
    "a free arithmetic pipe": "빈 연산 파이프",
    "a fixed delay between dependent instructions": "의존하는 명령 사이의 고정 지연",
    "instructions (cache misses of the program itself)": "명령(프로그램 자체의 캐시 미스)",
    "their turn: others could issue as well": "차례(다른 워프도 발행 가능)",
    "branches": "분기",
    "the dispatcher": "디스패처",
    "stores to drain at the end": "끝에서 쓰기가 비워지기",
    "constants (cache misses)": "상수(캐시 미스)",
    "a memory fence": "메모리 펜스",
    "a sleep of their own": "스스로 건 수면",
    "other things": "그 밖",
    "tensor cores (wgmma)": "텐서 코어(wgmma)",
    # 제목과 해결책
    "Memory limits it": "메모리가 한계",
    "Move fewer bytes": "옮기는 바이트를 줄이기",
    "Fuse it with its neighbours (torch.compile), use bf16 instead of fp32, avoid copies and transposes.": (
        "이웃 연산과 합치고(torch.compile), fp32 대신 bf16을 쓰고, 복사와 전치를 피하십시오."
    ),
    "Load each block once and do all that needs it; store in bf16; widen BLOCK so that loads are vectors.": (
        "블록마다 한 번만 읽어 필요한 계산을 모두 하고, bf16으로 저장하고, 벡터로 읽히도록 BLOCK을 넓히십시오."
    ),
    "Keep data in registers or shared memory between passes, use smaller types, and 16-byte vector loads.": (
        "단계 사이의 데이터를 레지스터나 공유 메모리에 두고, 더 작은 자료형과 16바이트 벡터 읽기를 쓰십시오."
    ),
    "Arithmetic limits it": "연산이 한계",
    "Compute less, or on faster units": "연산을 줄이거나 더 빠른 장치에서 하기",
    "Lower precision (bf16, fp8) where the loss allows it; otherwise it is near what the GPU can do.": (
        "손실이 허용하면 정밀도를 낮추십시오(bf16, fp8). 아니면 GPU가 할 수 있는 한계에 가깝습니다."
    ),
    "Use tl.dot in bf16 with fp32 accumulation, and autotune BLOCK sizes, num_warps and num_stages.": (
        "bf16 입력과 fp32 누적으로 tl.dot을 쓰고, BLOCK 크기와 num_warps, num_stages를 autotune하십시오."
    ),
    "Tensor cores through cuBLASLt or CUTLASS; fewer instructions an element (fast intrinsics).": (
        "cuBLASLt나 CUTLASS로 텐서 코어를 쓰고, 원소당 명령을 줄이십시오(빠른 내장 함수)."
    ),
    "Neither arithmetic nor memory is near its limit: it waits": "연산도 메모리도 한계에 멀다: 기다림",
    "Give the GPU more independent work at a time": "독립적인 일을 한 번에 더 주기",
    "Larger batches, fewer and larger kernels (torch.compile, foreach or fused variants).": (
        "배치를 키우고, 커널을 더 적고 크게 만드십시오(torch.compile, foreach나 융합(fused) 변형)."
    ),
    "More programs in the grid, num_warps and num_stages from autotune, several elements a thread.": (
        "그리드의 프로그램 수를 늘리고, num_warps와 num_stages를 autotune하고, 스레드마다 여러 원소를 맡기십시오."
    ),
    "More blocks and warps an SM, more independent instructions a thread (unrolling), asynchronous copies.": (
        "SM당 블록과 워프를 늘리고, 스레드의 독립 명령을 늘리고(언롤링), 비동기 복사를 쓰십시오."
    ),
    "The grid is too small for this GPU": "이 GPU에는 그리드가 너무 작음",
    "Launch more blocks": "블록을 더 많이 실행하기",
    "Larger batches, or do several such operations at once (batched matrix products, foreach, torch.compile).": (
        "배치를 키우거나, 같은 연산 여럿을 한 번에 하십시오(배치 행렬 곱, foreach, torch.compile)."
    ),
    "Smaller BLOCK sizes, or split the reduction over programs (split-K, tl.atomic_add).": (
        "BLOCK 크기를 줄이거나, 축약을 프로그램에 나누십시오(split-K, tl.atomic_add)."
    ),
    "Smaller tiles, split-K, or a grid of at least one block for each multiprocessor.": (
        "타일을 줄이거나 split-K를 쓰고, 멀티프로세서마다 블록이 하나는 있게 하십시오."
    ),
    "The last wave of blocks leaves most of the GPU idle": "블록의 마지막 웨이브가 GPU 대부분을 유휴 상태로 둠",
    "Make the work divide evenly": "일이 고르게 나뉘게 하기",
    "Pad or choose sizes so that blocks fill whole waves; batch sizes that are multiples of what fits at once.": (
        "블록이 웨이브를 채우도록 크기를 고르거나 덧대십시오. 배치 크기는 한 번에 들어가는 수의 배수로 하십시오."
    ),
    "Another BLOCK size, or a persistent kernel: one program an SM that loops over tiles.": (
        "다른 BLOCK 크기나 상주 커널을 쓰십시오: SM마다 프로그램 하나가 타일을 돌며 처리합니다."
    ),
    "Another tile size, stream-K or a persistent kernel with one block an SM.": (
        "다른 타일 크기, stream-K, 또는 SM마다 블록 하나인 상주 커널을 쓰십시오."
    ),
    "Few warps fit on a multiprocessor: {limiter} limits them": "멀티프로세서에 들어가는 워프가 적음(한계: {limiter})",
    "Use less of what limits": "한계가 되는 자원을 덜 쓰기",
    "The kernel is a library's: other shapes or types choose another one; torch.compile(mode='max-autotune').": (
        "라이브러리의 커널입니다: 다른 모양이나 자료형이면 다른 커널이 선택됩니다. torch.compile(mode='max-autotune')."
    ),
    "Fewer num_stages or smaller BLOCK sizes use less shared memory; more num_warps spread the registers.": (
        "num_stages나 BLOCK 크기를 줄이면 공유 메모리를 덜 쓰고, num_warps를 늘리면 레지스터가 나뉩니다."
    ),
    "__launch_bounds__ or -maxrregcount for registers, smaller tiles, blocks of 128 to 256 threads.": (
        "레지스터는 __launch_bounds__나 -maxrregcount로 줄이고, 타일을 줄이고, 블록은 스레드 128~256개로 하십시오."
    ),
    "Warps finish at very different times": "워프가 끝나는 시각이 매우 다름",
    "Spread the work evenly": "일을 고르게 나누기",
    "Sort or bucket inputs by length, so that neighbouring blocks do the same amount of work.": (
        "이웃 블록의 일이 같아지도록 입력을 길이별로 정렬하거나 묶으십시오."
    ),
    "Let programs take tiles from a counter (tl.atomic_add) instead of a fixed share.": (
        "고정된 몫 대신 카운터에서 타일을 가져가게 하십시오(tl.atomic_add)."
    ),
    "Smaller blocks, or work taken from an atomic counter, so that no block waits for its longest warp.": (
        "블록을 줄이거나 원자적 카운터에서 일을 가져가, 가장 긴 워프를 기다리지 않게 하십시오."
    ),
    "Global memory is read or written in pieces: most of each sector is thrown away": (
        "전역 메모리를 조각내어 읽고 씀: 섹터 대부분이 버려짐"
    ),
    "Let neighbouring threads touch neighbouring addresses": "이웃 스레드가 이웃 주소를 쓰게 하기",
    "Make the tensor contiguous in the order in which it is used (.contiguous(), channels_last); gather rows.": (
        "쓰는 순서대로 텐서가 이어지게 하고(.contiguous(), channels_last), 열 대신 행을 모으십시오."
    ),
    "Let tl.arange run along the dimension with stride 1; transpose through tl.trans after a contiguous load.": (
        "tl.arange를 stride 1인 차원에 두고, 연속으로 읽은 뒤 tl.trans로 전치하십시오."
    ),
    "Let threadIdx.x run along the fastest dimension, use structures of arrays, transpose in shared memory.": (
        "threadIdx.x를 가장 빠른 차원에 두고, 배열의 구조체를 쓰고, 전치는 공유 메모리에서 하십시오."
    ),
    "Threads of a warp go different ways": "한 워프의 스레드가 서로 다른 길로 감",
    "Let the threads of a warp take the same branch": "워프의 스레드가 같은 분기를 타게 하기",
    "Replace data-dependent branches by torch.where over whole tensors, or sort so that equal cases lie together.": (
        "데이터에 따른 분기를 텐서 전체의 torch.where로 바꾸거나, 같은 경우가 모이도록 정렬하십시오."
    ),
    "Use tl.where and masks over blocks; give cases of different length to different programs.": (
        "블록 위의 tl.where와 마스크를 쓰고, 길이가 다른 경우는 다른 프로그램에 맡기십시오."
    ),
    "Branch by warp instead of by thread, sort or compact the work first, take loops to the same length.": (
        "스레드 대신 워프 단위로 분기하고, 일을 먼저 정렬하거나 모으고, 반복 횟수를 맞추십시오."
    ),
    "Threads queue for the same bank of shared memory": "스레드가 공유 메모리의 같은 뱅크를 기다림",
    "Spread the accesses over the banks": "접근을 여러 뱅크로 흩기",
    "The kernel is the library's: another layout or size of the last dimension avoids it (not a power of two).": (
        "라이브러리의 커널입니다: 마지막 차원의 레이아웃이나 크기를 바꾸면 피할 수 있습니다(2의 거듭제곱이 아니게)."
    ),
    "Leave the layout to tl.dot and tl.trans (they swizzle); avoid reshapes that change the fastest dimension.": (
        "레이아웃은 tl.dot과 tl.trans에 맡기고(스위즐을 합니다), 가장 빠른 차원을 바꾸는 reshape를 피하십시오."
    ),
    "Pad rows by one element (tile[32][33]) or swizzle the index.": (
        "행에 원소 하나를 덧대거나(tile[32][33]) 인덱스를 스위즐하십시오."
    ),
    "Matrix arithmetic on CUDA cores: tensor cores are idle": "행렬 연산을 CUDA 코어에서 함: 텐서 코어가 놀고 있음",
    "Use tensor cores": "텐서 코어 쓰기",
    "torch.set_float32_matmul_precision('high') for TF32, or torch.autocast in bf16; dimensions in multiples of 8.": (
        "TF32는 torch.set_float32_matmul_precision('high'), 아니면 bf16 torch.autocast. 차원은 8의 배수로 하십시오."
    ),
    "tl.dot on bf16 blocks (or input_precision='tf32') instead of sums of products.": (
        "곱의 합 대신 bf16 블록의 tl.dot을 쓰십시오(또는 input_precision='tf32')."
    ),
    "cuBLASLt with CUBLAS_COMPUTE_32F_FAST_TF32, CUTLASS, or mma/wgmma instructions.": (
        "cuBLASLt의 CUBLAS_COMPUTE_32F_FAST_TF32, CUTLASS, 또는 mma/wgmma 명령을 쓰십시오."
    ),
}
