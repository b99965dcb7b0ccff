"""Korean of the commands: ``doctor``, ``run``, ``try``, ``fix``, ``demo``; what they say while they work.

In: nothing. Out: ``TEXTS`` and ``HEARD``.
"""

from __future__ import annotations

TEXTS = {
    # doctor
    "ok": "정상",
    "limited": "제한됨",
    "missing": "없음",
    "importer": "임포터",
    "CPU samples": "CPU 샘플",
    "GPU metrics": "GPU 지표",
    "disk": "디스크",
    ", inside {container}": ", {container} 안",
    " Lost without it: {what}.": " 없으면 잃는 것: {what}.",
    "`unstall run` would use {collector:said}.": "`unstall run` 명령이 쓸 수집기: {collector:said}.",
    "`unstall run` would use {collector:said}; with --auto or --steps {other:said}, because this nsys records no range "
    "of pip nvtx.": (
        "`unstall run` 명령이 쓸 수집기: {collector:said}. --auto나 --steps를 주면 {other:said}: 이 nsys는 pip nvtx의 "
        "구간을 기록하지 못합니다."
    ),
    "the built-in collector": "내장 수집기",
    "It records here: {what}.": "여기서 기록하는 것: {what}.",
    # try
    "candidate": "후보",
    "predicted": "예측",
    "measured": "측정",
    "verdict": "판정",
    "losses": "손실",
    "safety": "안전성",
    "rejected": "기각",
    "failed": "실패",
    "not applicable": "해당 없음",
    "not measured": "측정 안 함",
    "equal": "같음",
    "agree": "일치",
    "same level": "같은 수준",
    "differ": "다름",
    "As it is: {step} ms a step, {where:said}, no profiler ({runs}, {seconds} s in all)": (
        "지금 그대로: 스텝당 {step} ms, {where:said}, 프로파일러 없음({runs}, 모두 {seconds} s)"
    ),
    "with a GPU": "GPU 있음",
    "without a GPU": "GPU 없음",
    "{n} plain run": "그대로 실행 {n}번",
    "Nothing that was tried is faster beyond doubt.": "시도한 것 가운데 확실히 더 빠른 것은 없습니다.",
    "What to write:": "고쳐 쓸 내용:",
}

HEARD = {
    # run
    "writing the capture": "캡처를 쓰는 중",
    "calibrating: {seconds} s of the program without a profiler, then Ctrl-C for it": (
        "보정 중: 프로파일러 없이 프로그램을 {seconds} s 실행한 뒤 Ctrl-C로 끝냅니다"
    ),
    "calibration saw no training step: give it more seconds (imports count), or write `with unstall.step(i):` in the "
    "loop": (
        "보정하는 동안 학습 스텝을 보지 못했습니다: 시간을 더 주거나(임포트도 시간에 듭니다) 반복문에 "
        "`with unstall.step(i):`를 쓰십시오"
    ),
    "calibration saw no training step: give --auto, or write `with unstall.step(i):` in the loop": (
        "보정하는 동안 학습 스텝을 보지 못했습니다: --auto를 주거나 반복문에 `with unstall.step(i):`를 쓰십시오"
    ),
    "exporting {file} ({size} MB)": "{file} 내보내는 중({size} MB)",
    "interrupted before the capture was complete: nothing was kept": (
        "캡처가 끝나기 전에 중단되어 아무것도 남기지 않았습니다"
    ),
    "{signal}: the capture is being finished; once more gives it up": (
        "{signal}: 캡처를 마무리하는 중입니다. 한 번 더 보내면 그만둡니다"
    ),
    "{signal}: the program was told to end; what was captured is kept.": (
        "{signal}: 프로그램에 종료를 알렸습니다. 그때까지의 캡처는 남습니다."
    ),
    "--duration {seconds}: the time of capturing was over, and the program was told to end.": (
        "--duration {seconds}: 캡처 시간이 끝나 프로그램에 종료를 알렸습니다."
    ),
    "the report was given up; the capture is kept: {file}": "보고를 그만두었습니다. 캡처는 남아 있습니다: {file}",
    "nsys counts in whole seconds: {option} {seconds} became {whole}.": (
        "nsys는 초를 정수로만 셉니다: {option} {seconds} → {whole}."
    ),
    "For nsys only, and of no effect here: {options}.": "nsys 전용이라 여기서는 효과가 없습니다: {options}.",
    "no capture was kept": "남긴 캡처가 없습니다",
    "captured by {collector} in {folder} ({size} MB): {files}": (
        "{collector} 수집기로 캡처, 폴더 {folder} ({size} MB): {files}"
    ),
    "exit code {code}: {program} ended, and its own code went with the nsys that hung": (
        "종료 코드 {code}: {program} 프로그램은 끝났으나 그 종료 코드는 멈춘 nsys와 함께 사라졌습니다"
    ),
    "exit code {code} is the program's own ({program})": "종료 코드 {code} = 프로그램 자체의 것({program})",
    "exit code {code} is the program's own ({program}, run as it is)": (
        "종료 코드 {code} = 프로그램 자체의 것({program}, 그대로 실행)"
    ),
    "{n} ranks are in it, side by side: unstall ranks {folder}": (
        "랭크 {n}개가 들어 있습니다. 나란히 보려면: unstall ranks {folder}"
    ),
    "when all ranks have ended, side by side: unstall ranks {folder}": (
        "모든 랭크가 끝난 뒤 나란히 보려면: unstall ranks {folder}"
    ),
    "srun has its tasks started by SLURM, where this capture cannot see them: srun … unstall run -- PROGRAM … captures "
    "each rank.": (
        "srun의 작업은 SLURM이 시작하므로 이 캡처에 들어오지 않습니다. srun … unstall run -- PROGRAM … 형태로 실행하면 "
        "랭크마다 캡처됩니다."
    ),
    "the report as a page: {file}": "보고서 페이지: {file}",
    "next, what the fixes gain: {command}": "다음, 해결책의 이득 재기: {command}",
    "no {page} was left: {error}": "{page} 파일을 남기지 못했습니다: {error}",
    "internal error while reporting: {error}. The capture is kept: {file}": (
        "보고 중 내부 오류: {error}. 캡처는 남아 있습니다: {file}"
    ),
    "CPU samples left out: this nsys may hang with them. --sample process-tree asks for them all the same.": (
        "CPU 샘플 제외: 이 nsys는 CPU 샘플을 받다가 멈출 수 있습니다. 그래도 받으려면 --sample process-tree를 주십시오."
    ),
    "No GPU work was recorded: no NVIDIA GPU is visible on this machine.": (
        "기록된 GPU 작업이 없습니다: 이 장비에 보이는 NVIDIA GPU가 없습니다."
    ),
    "No GPU work was recorded: no CUDA kernel ran while the capture was on, or only in forked processes. `unstall "
    "doctor` says what this machine can record.": (
        "기록된 GPU 작업이 없습니다: 캡처하는 동안 CUDA 커널이 실행되지 않았거나, fork한 프로세스에서만 "
        "실행되었습니다. 이 장비에서 무엇을 기록할 수 있는지는 `unstall doctor`가 알려 줍니다."
    ),
    "No GPU work was recorded: {signal} ended the program before nsys had written its buffers. End it with SIGINT, or "
    "capture some steps with --steps or --duration.": (
        "기록된 GPU 작업이 없습니다: nsys가 버퍼를 쓰기 전에 {signal} 때문에 프로그램이 끝났습니다. SIGINT로 끝내거나, "
        "--steps 또는 --duration으로 일부 스텝만 캡처하십시오."
    ),
    "No NVTX range was recorded: the program writes none. --auto adds them to PyTorch training without an edit; "
    "unstall.annotate writes them by hand.": (
        "기록된 NVTX 구간이 없습니다: 프로그램이 구간을 쓰지 않습니다. --auto는 고치지 않은 PyTorch 학습에 구간을 "
        "넣고, unstall.annotate로는 직접 넣을 수 있습니다."
    ),
    "Steps {first}:{end} were never captured: {why:said}.": "스텝 {first}:{end} 캡처 안 됨: {why:said}.",
    "the program took {n} steps": "프로그램의 스텝은 {n}개였습니다",
    "no step was recognised: give --auto, or write `with unstall.step(i):`": (
        "알아본 스텝이 없습니다: --auto를 주거나 `with unstall.step(i):`를 쓰십시오"
    ),
    "The program ended before step {step}: the capture holds fewer steps than asked for.": (
        "스텝 {step} 이전에 프로그램이 끝났습니다: 캡처에 든 스텝이 요청보다 적습니다."
    ),
    "{n} worker process was forked, and nsys records nothing of those. The main process is recorded; start method "
    "spawn makes workers visible.": (
        "워커 프로세스 {n}개가 fork로 시작되었고 nsys는 이런 프로세스를 기록하지 않습니다. 메인 프로세스는 기록됩니다. "
        "시작 방식을 spawn으로 바꾸면 워커가 보입니다."
    ),
    "{n} worker processes were forked, and nsys records nothing of those. The main process is recorded; start method "
    "spawn makes workers visible.": (
        "워커 프로세스 {n}개가 fork로 시작되었고 nsys는 이런 프로세스를 기록하지 않습니다. 메인 프로세스는 기록됩니다. "
        "시작 방식을 spawn으로 바꾸면 워커가 보입니다."
    ),
    # try
    "{n} candidates: {names}": "후보 {n}개: {names}",
    "the program runs as it is and with each of them, in turns, a line a run; {n} s in all": (
        "프로그램을 그대로, 그리고 후보마다 번갈아 실행하며 실행 한 번에 한 줄씩 알립니다. 모두 {n} s"
    ),
    "no profile given: steps {n} to {n_last} are captured to find candidates": (
        "주어진 프로파일이 없습니다: 후보를 찾으려고 스텝 {n}~{n_last} 캡처"
    ),
    "no finding has a remedy that can be switched on: all safe ones are tried": (
        "스위치로 켤 수 있는 해결책이 있는 발견 사항이 없습니다: 안전한 것을 모두 시도합니다"
    ),
    "plain": "그대로",
    "{n_step} ms a step ({n_took} s; {n_left} s left)": "스텝당 {n_step} ms({n_took} s; {n_left} s 남음)",
    "given up after one run: at least {share} slower": "한 번 실행하고 그만둠: 적어도 {share} 느림",
    "given up after {runs} runs: at least {share} slower": "{runs}번 실행하고 그만둠: 적어도 {share} 느림",
    "given up after {runs} runs: at best {share} faster": "{runs}번 실행하고 그만둠: 좋아야 {share} 빠름",
    "one run a side: runs differ by more than steps do": (
        "한쪽에 실행 한 번씩입니다: 실행끼리의 차이가 스텝끼리의 차이보다 큽니다"
    ),
    "the time was out: give a larger --budget": "시간이 다 되었습니다: --budget을 더 크게 주십시오",
    "no GPU took part": "쓰인 GPU가 없습니다",
    "interrupted: what was measured until then": "중단됨: 그때까지 측정한 것",
    "fewer than {n} steps in {n_seconds} s": "{n_seconds} s 동안 스텝이 {n}개도 되지 않습니다",
    "exit code {n}": "종료 코드 {n}",
    "no training step was seen": "학습 스텝을 보지 못했습니다",
    "only {n} steps after warm-up": "워밍업 뒤의 스텝이 {n}개뿐입니다",
    "losses: {text:said}": "손실: {text:said}",
    "no losses were seen": "손실을 보지 못했습니다",
    "no step has a loss in both runs": "두 실행 모두에 손실이 있는 스텝이 없습니다",
    "the plain program itself differs from run to run": "그대로인 프로그램도 실행마다 다릅니다",
    "the loss of step {step} is {value}, plain {plain}": "스텝 {step}의 손실은 {value}, 그대로일 때는 {plain}입니다",
    "equal in {n} steps": "스텝 {n}개에서 같습니다",
    "within {largest} in the first steps": "처음 스텝들에서 {largest} 이내입니다",
    "agree to {n} digits in the first steps": "처음 스텝들에서 유효 숫자 {n}자리까지 일치합니다",
    "equal in the first {n} steps": "처음 스텝 {n}개에서 같습니다",
    "other random draws, same level ({level:said})": "난수가 다르지만 같은 수준입니다({level:said})",
    "mean {mean} ± {error}": "평균 {mean} ± {error}",
    "mean of steps {first} to {last}: {value}, plain {plain} (allowed {tolerance})": (
        "스텝 {first}~{last}의 평균: {value}, 그대로일 때 {plain} (허용 {tolerance})"
    ),
    "step {step}: {value}, plain {plain} ({largest}, allowed {tolerance})": (
        "스텝 {step}: {value}, 그대로일 때 {plain} ({largest}, 허용 {tolerance})"
    ),
    # fix
    "no profile was given: these are all that apply, and none of them is proven to gain anything": (
        "주어진 프로파일이 없습니다: 적용할 수 있는 것을 모두 보였으며, 이득이 있다고 증명된 것은 하나도 없습니다"
    ),
    "nothing was written; --apply writes it": "아무것도 쓰지 않았습니다. --apply를 주면 씁니다",
    "nothing to do in {path}": "{path} 파일에서 고칠 것이 없습니다",
    "imported from there, and worth a look: {command}": "그 파일이 임포트하는 것 중 볼 만한 것: {command}",
    "{path} written; as it was: {backup}": "{path} 파일을 썼습니다. 원래 파일: {backup}",
    "left alone, {where}: {reason:said} ({remedy})": "그대로 둠, {where}: {reason:said} ({remedy})",
    "line {lines}: {remedy} ({title:said}), {safety:said}": "{lines}번째 줄: {remedy}({title:said}), {safety:said}",
    "lines {lines}: {remedy} ({title:said}), {safety:said}": "{lines}번째 줄: {remedy}({title:said}), {safety:said}",
    "line {lines}: {remedy} ({title:said}), {safety:said}, for {codes}": (
        "{lines}번째 줄: {remedy}({title:said}), {safety:said}, 발견 사항 {codes}"
    ),
    "lines {lines}: {remedy} ({title:said}), {safety:said}, for {codes}": (
        "{lines}번째 줄: {remedy}({title:said}), {safety:said}, 발견 사항 {codes}"
    ),
    "Write checkpoints in the background": "백그라운드에서 체크포인트 쓰기",
    "bf16 where it is safe (autocast)": "안전한 곳에 bf16(autocast)",
    "Channels-last layout": "channels last 레이아웃",
    "CUDA graphs through torch.compile": "torch.compile을 통한 CUDA 그래프",
    "cuDNN autotuning": "cuDNN 자동 튜닝",
    "Load in worker processes": "워커 프로세스에서 로딩",
    "Expandable memory segments": "확장 가능한 메모리 세그먼트",
    "Multi-tensor optimizer": "다중 텐서 옵티마이저",
    "Fused optimizer": "융합 옵티마이저",
    "Garbage collector passes over what stays": "가비지 컬렉터가 남는 객체를 건너뛰기",
    "Losses read once after the loop": "손실을 반복문 뒤에서 한 번만 읽기",
    "Pinned batches, copied without waiting": "페이지 고정 배치를 기다리지 않고 복사",
    "Draw and copy the next batch meanwhile": "그동안 다음 배치를 꺼내 복사",
    "Fused attention": "융합 어텐션",
    "Gradients dropped, not zeroed": "기울기를 0으로 채우지 않고 버리기",
    "TF32 for fp32 matrix products": "fp32 행렬 곱에 TF32",
    "CPU threads as there are cores": "코어 수만큼의 CPU 스레드",
    "saves inside a loop: save every N steps (if step % N == 0:), or in a thread": (
        "반복문 안에서 저장합니다: N스텝마다(if step % N == 0:) 또는 스레드에서 저장하십시오"
    ),
    "torch is not imported by name at the top of the script": (
        "스크립트 첫머리에서 torch를 이름으로 임포트하지 않습니다"
    ),
    "{kind} with *args or **kwargs: what it gets cannot be read from here": (
        "*args나 **kwargs를 쓴 {kind}: 무엇을 받는지 여기서는 읽을 수 없습니다"
    ),
    "num_workers is {code}: give it {n} where it is made, if it is 0": (
        "num_workers가 {code}입니다: 0이라면, 그것을 정하는 곳에서 다음 값을 주십시오: {n}"
    ),
    "an iterable data set: every worker would read all of it unless it shards itself": (
        "반복 방식(iterable) 데이터 세트입니다: 스스로 나누지 않으면 모든 워커가 전체를 읽습니다"
    ),
    "{kind} is told to be foreach or differentiable, which excludes fused": (
        "{kind}: foreach나 differentiable로 지정되어 있어 융합(fused)을 쓸 수 없습니다"
    ),
    "{code} makes the host wait in every step: {why:said}": "{code}: 스텝마다 호스트가 기다리게 합니다: {why:said}",
    "its value is used inside the loop": "그 값을 반복문 안에서 씁니다",
    "attention, but torch is not imported by name at the top of the script": (
        "어텐션이지만, 스크립트 첫머리에서 torch를 이름으로 임포트하지 않습니다"
    ),
    "attention of a form that is not rewritten: {why:said}": "고쳐 쓰지 않는 형태의 어텐션입니다: {why:said}",
    "the script reads .grad, which would be None instead of zeros": (
        "스크립트가 .grad를 읽는데, 0이 아니라 None이 됩니다"
    ),
    "the script sets the precision of fp32 products itself": "스크립트가 fp32 행렬 곱의 정밀도를 직접 설정합니다",
    # demo
    "A training loop in PyTorch on an NVIDIA H200 that loads each batch on the main thread, recorded with Nsight "
    "Systems.": (
        "NVIDIA H200에서 배치를 하나씩 메인 스레드에서 로딩하는 PyTorch 학습 반복문을 Nsight Systems로 기록한 것입니다."
    ),
    "This is what `unstall report` says of the recording; it was made elsewhere, nothing runs on a GPU now.": (
        "다음은 그 기록에 대한 `unstall report`의 보고입니다. 다른 곳에서 기록한 것이며, 지금 GPU에서 실행되는 것은 "
        "없습니다."
    ),
    "The same kind of training loop, run on this machine now: it decodes every batch on the main thread, 20 ms of "
    "it.": ("같은 종류의 학습 반복문을 지금 이 장비에서 실행합니다: 배치마다 20 ms씩 메인 스레드에서 디코딩합니다."),
    "ON THIS MACHINE": "이 장비에서",
    "The same kind of training loop runs here now: every batch is decoded on the main thread, 20 ms of it. Half a "
    "minute.": (
        "같은 종류의 학습 반복문을 지금 여기서 실행합니다: 배치마다 20 ms씩 메인 스레드에서 디코딩합니다. 30초 "
        "걸립니다."
    ),
    "The remedy, tried here: the loop as it is and with its batches made by worker processes, in turns, without a "
    "profiler.": (
        "해결책을 여기서 시도합니다: 그대로인 반복문과 워커 프로세스가 배치를 만드는 반복문을 프로파일러 없이 번갈아 "
        "실행합니다."
    ),
    "THE REMEDY, measured there": "그곳에서 측정한 해결책",
    "Without the profiler, in the process of the recording: as it was, and with batches loaded by 8 worker processes "
    "into pinned memory.": (
        "프로파일러 없이, 기록과 같은 프로세스에서: 그대로일 때와, 워커 프로세스 8개가 페이지 고정 메모리에 배치를 "
        "로딩할 때입니다."
    ),
    "The loop did not run through here (exit code {code}), so there is no more to show.": (
        "반복문이 여기서 끝까지 실행되지 않아(종료 코드 {code}) 더 보일 것이 없습니다."
    ),
    "Not done here: {error}": "여기서는 하지 않았습니다: {error}",
    "No time is left of a minute to try the remedy here: {command} takes its own.": (
        "1분 가운데 해결책을 시도할 시간이 남지 않았습니다: {command} 명령은 따로 시간을 씁니다."
    ),
    "INCONCLUSIVE: these runs prove nothing either way. {command} tries again.": (
        "판정 불가: 이 실행들로는 어느 쪽도 증명되지 않습니다. 다시 시도하려면: {command}"
    ),
    "Next: {run}     (or of a profile: {report})": "다음: {run}     (프로파일이 있다면: {report})",
    "{verdict}: {before} ms a step as it is, {after} ms with the remedy, {times}×.": (
        "{verdict:said}: 그대로는 스텝당 {before} ms, 해결책을 쓰면 {after} ms, {times}×."
    ),
    "{verdict}: {before} ms a step as it is, {after} ms with the remedy, {times}×. The prediction has a core for "
    "every worker; here {n} are shared by the workers and the training.": (
        "{verdict:said}: 그대로는 스텝당 {before} ms, 해결책을 쓰면 {after} ms, {times}×. 예측은 워커마다 코어 하나를 "
        "둡니다. 여기서는 코어 {n}개를 워커와 학습이 함께 씁니다."
    ),
    "FASTER": "빨라짐",
    "SLOWER": "느려짐",
    "NO DIFFERENCE": "차이 없음",
    "REJECTED": "기각",
    "FAILED": "실패",
    "NOT APPLICABLE": "해당 없음",
    "INCONCLUSIVE": "판정 불가",
    # doctor
    "{nsys} at {path} (found by {source}).": "{nsys}, {path} ({source} 경로로 찾음).",
    "{nsys} at {path} (found by {source}); not used: {others}.": (
        "{nsys}, {path} ({source} 경로로 찾음). 쓰지 않음: {others}."
    ),
    "none was found.": "찾지 못했습니다.",
    "GPU timelines with full detail; the built-in collector records ranges, stacks and, with torch, kernels": (
        "모든 세부 사항이 든 GPU 타임라인. 내장 수집기는 구간과 스택을, torch가 있으면 커널도 기록합니다"
    ),
    "its captures stay raw streams (.qdstrm) that only another machine can read": (
        "캡처가 다른 장비에서만 읽을 수 있는 원시 스트림(.qdstrm)으로 남습니다"
    ),
    "nsys came without its QdstrmImporter.": "nsys에 QdstrmImporter가 없습니다.",
    "{path} lacks {names}.": "{path}에 없는 것: {names}.",
    "{path} (its libraries could not be checked: no ldd).": "{path} (ldd가 없어 라이브러리를 확인하지 못함).",
    "reports of this nsys, so the built-in collector is used instead": "이 nsys의 보고서. 대신 내장 수집기를 씁니다",
    "{command}; or copy them into a folder and set {variable} to it": (
        "{command}; 또는 폴더에 복사하고 {variable} 변수에 그 폴더를 지정"
    ),
    "stacks and context switches in nsys captures; ranges, kernels and API calls are not affected": (
        "nsys 캡처의 스택과 문맥 전환. 구간, 커널, API 호출에는 영향이 없습니다"
    ),
    "perf_event_paranoid is {level}, capabilities: {names:said}.": (
        "perf_event_paranoid = {level}, 권한: {names:said}."
    ),
    "none of those that matter": "관계있는 것 없음",
    "perf_event_paranoid is {level}, capabilities: {names:said}; {nsys} may hang with them: off by default.": (
        "perf_event_paranoid = {level}, 권한: {names:said}. {nsys} 버전은 CPU 샘플을 받다가 멈출 수 있어 "
        "기본으로 끕니다."
    ),
    "perf_event_paranoid is {level}, capabilities: {names:said}. The built-in collector samples Python stacks "
    "without any of them.": (
        "perf_event_paranoid = {level}, 권한: {names:said}. 내장 수집기는 이런 것 없이도 Python 스택을 샘플링합니다."
    ),
    "gVisor has no perf_event_open.": "gVisor에는 perf_event_open이 없습니다.",
    "run outside gVisor (docker --runtime runc)": "gVisor 밖에서 실행(docker --runtime runc)",
    "start the container with --cap-add SYS_ADMIN (docker, podman), and on the host: {command}": (
        "컨테이너를 --cap-add SYS_ADMIN으로 시작하고(docker, podman), 호스트에서: {command}"
    ),
    "NVIDIA driver {version}; {names}.": "NVIDIA 드라이버 {version}; {names}.",
    "no NVIDIA driver is visible.": "보이는 NVIDIA 드라이버가 없습니다.",
    "kernels, copies and CUDA calls": "커널, 복사, CUDA 호출",
    "in docker, start it with --gpus all": "docker라면 --gpus all로 시작",
    "need a GPU.": "GPU가 필요합니다.",
    "counters are for administrators only.": "카운터는 관리자만 쓸 수 있습니다.",
    "--gpu-metrics; nothing else": "--gpu-metrics뿐이고 다른 것은 없습니다",
    "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d/, then reload the driver": (
        "/etc/modprobe.d/에 options nvidia NVreg_RestrictProfilingToAdminUsers=0을 쓰고 드라이버를 다시 불러오기"
    ),
    "allowed.": "허용됩니다.",
    "the driver does not say whether they are allowed.": "허용되는지 드라이버가 알려 주지 않습니다.",
    "not installed for this Python (another Python's is found when it runs).": (
        "이 Python에는 설치되어 있지 않습니다(다른 Python의 것은 실행할 때 찾습니다)."
    ),
    "--auto for PyTorch, and kernels in the built-in collector": "PyTorch용 --auto, 내장 수집기의 커널",
    "{version}, built for CUDA {cuda}.": "{version}, CUDA {cuda} 빌드.",
    "{version}, built without CUDA.": "{version}, CUDA 없는 빌드.",
    "not installed for this Python.": "이 Python에는 설치되어 있지 않습니다.",
    "unstall.annotate under nsys": "nsys 아래의 unstall.annotate",
    "{version}, of which nsys {nsys} records nothing, without a word.": (
        "{version}. nsys {nsys} 버전은 아무 말 없이 이것을 기록하지 않습니다."
    ),
    "every range that pip nvtx writes; without a GPU --auto and --steps use the built-in collector instead": (
        "pip nvtx가 쓰는 모든 구간. GPU가 없으면 --auto와 --steps는 내장 수집기를 대신 씁니다"
    ),
    "{version} records under nsys {nsys}.": "{version}, nsys {nsys} 아래에서 기록됩니다.",
    "not found; only needed to look inside single kernels.": (
        "찾지 못했습니다. 커널 하나의 안을 들여다볼 때만 필요합니다."
    ),
    "{size} GB free in {folder}.": "{folder}에 {size} GB 남음.",
    "long captures": "긴 캡처",
    "set TMPDIR to a folder with more space, or use --steps": "TMPDIR을 공간이 더 있는 폴더로 지정하거나 --steps 사용",
    "NVTX ranges, threads, CPU time, Python stacks": "NVTX 구간, 스레드, CPU 시간, Python 스택",
    "kernels, copies and CUDA calls through torch": "torch를 통한 커널, 복사, CUDA 호출",
    "NVTX ranges of other libraries, not of pip nvtx": "다른 라이브러리의 NVTX 구간(pip nvtx의 것은 아님)",
    "NVTX ranges of torch, not of pip nvtx": "torch의 NVTX 구간(pip nvtx의 것은 아님)",
    "OS runtime calls": "OS 런타임 호출",
    "kernels, copies, CUDA calls": "커널, 복사, CUDA 호출",
    "CPU samples, context switches": "CPU 샘플, 문맥 전환",
    "with contrib and non-free in the apt sources": "apt 소스에 contrib와 non-free를 넣고",
    "with NVIDIA's CUDA repository enabled": "NVIDIA의 CUDA 저장소를 켜고",
    "download the CLI from https://developer.nvidia.com/nsight-systems and put nsys on the PATH, or set NSYS to it": (
        "https://developer.nvidia.com/nsight-systems 에서 CLI를 내려받아 nsys를 PATH에 두거나 NSYS에 경로를 지정"
    ),
}
