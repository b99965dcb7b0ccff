"""What the doctor says on machines made of files: never a failure, and for everything missing what brings it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import fake_nsys
import pytest

from unstall.collect.doctor import Check, Doctor, doctor, install_nsys
from unstall.collect.machine import Machine, sampling_of
from unstall.commands.doctor import render
from unstall.nsys.discover import Nsys, Place

FILES = {
    "etc/os-release": 'ID=ubuntu\nID_LIKE=debian\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n',
    "proc/sys/kernel/perf_event_paranoid": "4\n",
    "proc/self/status": "CapEff:\t00000000a80425fb\n",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release\n",
    "proc/driver/nvidia/gpus/0000:00:06.0/information": "Model: \t\t NVIDIA H200\nIRQ: 11\n",
    "proc/driver/nvidia/params": "RmProfilingAdminOnly: 1\n",
}
ALL_CAPS = "CapEff:\t000001ffffffffff\n"
PACKAGES = {"torch": "2.11.0", "nvtx": "0.2.11"}


def machine(root: Path, **files: str | None) -> Machine:
    """A machine of :data:`FILES`, changed by ``files`` (``__`` for ``/``); ``None`` takes one away."""
    changed = {k.replace("__", "/"): v for k, v in files.items()}
    for name, text in {**FILES, **changed}.items():
        if text is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    return Machine(root)


def look(root: Path, on: Machine | None = None, said: str = "", packages: dict[str, str] | None = None) -> Doctor:
    known = PACKAGES if packages is None else packages
    place = Place(root, {"PATH": ""}, "x86_64")
    return doctor(on or machine(root), place, lambda name: known.get(name, ""), lambda _: said, lambda: "")


def check(record: Doctor, name: str) -> Check:
    return next(c for c in record.checks if c.name == name)


def install(root: Path, version: str = "2025.3.1", *, libraries: str = "") -> Path:
    tree = root / f"opt/nvidia/nsight-systems/{version}"
    fake_nsys.nsys(tree / "target-linux-x64", version)
    fake_nsys.importer(tree / "host-linux-x64")
    return tree


def test_bare_machine_says_what_still_works(tmp_path: Path) -> None:
    record = look(tmp_path, Machine(tmp_path), packages={})
    assert check(record, "nsys").state == "missing" and check(record, "nsys").remedy
    assert check(record, "GPU").state == "missing"
    assert record.collector == "builtin" and "Python stacks" in record.collects[0]
    assert "built-in collector" in render(record)


def test_complete_machine(tmp_path: Path) -> None:
    install(tmp_path)
    on = machine(tmp_path, proc__self__status=ALL_CAPS)
    record = look(tmp_path, on, "CPU Profiling Environment (process-tree): OK\n")
    assert {c.name: c.state for c in record.checks if c.state not in ("ok", "info")} == {}
    assert record.collector == "nsys" and record.nsys[0]["version"] == "2025.3.1"
    assert "580.159.04; NVIDIA H200" in check(record, "GPU").text
    assert any("kernels" in c for c in record.collects) and any("CPU samples" in c for c in record.collects)


def test_sampling_is_refused_by_the_kernel_by_nsys_or_by_its_age(tmp_path: Path) -> None:
    install(tmp_path)
    strict = check(look(tmp_path), "CPU samples")
    assert strict.state == "limited" and strict.remedy == "sudo sysctl -w kernel.perf_event_paranoid=2"
    on = machine(tmp_path, proc__sys__kernel__perf_event_paranoid="1\n")
    assert (
        check(look(tmp_path, on, "CPU Profiling Environment (process-tree): Fail\n"), "CPU samples").state == "limited"
    )
    assert check(look(tmp_path, on, ""), "CPU samples").state == "ok"
    (tmp_path / ".dockerenv").touch()
    assert "--cap-add SYS_ADMIN" in check(look(tmp_path), "CPU samples").remedy


def test_old_nsys_is_not_trusted_with_samples(tmp_path: Path) -> None:
    install(tmp_path, "2022.4.2")
    on = machine(tmp_path, proc__self__status=ALL_CAPS)
    assert "may hang" in check(look(tmp_path, on), "CPU samples").text


def test_gvisor_is_named(tmp_path: Path) -> None:
    install(tmp_path)
    record = look(tmp_path, machine(tmp_path, proc__version="Linux version 4.4.0 gVisor\n"))
    assert record.container == "gvisor" and "perf_event_open" in check(record, "CPU samples").text


def test_importer_without_its_libraries_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    monkeypatch.setattr("unstall.nsys.libraries.lacking", lambda *_: ["libdw.so.1", "libpfm.so.4"])
    record = look(tmp_path)
    found = check(record, "importer")
    assert found.state == "missing" and found.remedy.startswith("apt-get install -y libdw1 libpfm4;")
    assert "UNSTALL_LIBS" in found.remedy and record.collector == "builtin"


def test_nsys_without_importer(tmp_path: Path) -> None:
    fake_nsys.nsys(tmp_path / "opt/nvidia/nsight-systems/2025.3.1/target-linux-x64")
    record = look(tmp_path)
    assert ".qdstrm" in check(record, "importer").lost and record.collector == "builtin"


@pytest.mark.parametrize(
    ("nvtx", "nsys", "state"),
    [("0.2.11", "2022.4.2", "ok"), ("0.2.13", "2022.4.2", "limited"), ("0.2.12", "2024.2.3", "limited"),
     ("0.2.17", "2025.3.1", "ok"), ("", "2025.3.1", "missing")],
)  # fmt: skip
def test_nvtx_is_judged_by_the_nsys_it_meets(tmp_path: Path, nvtx: str, nsys: str, state: str) -> None:
    install(tmp_path, nsys)
    found = check(look(tmp_path, packages={"nvtx": nvtx} if nvtx else {}), "nvtx")
    assert found.state == state
    assert ("nvtx<0.2.12" in found.remedy) == (state == "limited")


@pytest.mark.parametrize("gpu", [True, False])
def test_the_last_words_name_the_collector_of_auto_where_it_is_another(tmp_path: Path, gpu: bool) -> None:
    install(tmp_path, "2022.4.2")
    record = look(tmp_path, None if gpu else Machine(tmp_path), packages={"nvtx": "0.2.17"})
    assert (record.collector, record.collector_auto) == ("nsys", "nsys" if gpu else "builtin")
    said = " ".join(render(record).split())
    assert ("with --auto or --steps the built-in collector" in said) != gpu


def test_counters_for_administrators(tmp_path: Path) -> None:
    found = check(look(tmp_path), "GPU metrics")
    assert found.state == "limited" and "NVreg_RestrictProfilingToAdminUsers=0" in found.remedy
    free = machine(tmp_path, proc__driver__nvidia__params="RmProfilingAdminOnly: 0\n")
    assert check(look(tmp_path, free), "GPU metrics").state == "ok"


@pytest.mark.parametrize(
    ("release", "word"),
    [("ID=debian\n", "non-free"), ("ID=ubuntu\nID_LIKE=debian\n", "CUDA repository"), ('ID="fedora"\n', "dnf"),
     ("ID=void\n", "developer.nvidia.com"), ("", "developer.nvidia.com")],
)  # fmt: skip
def test_nsys_is_installed_as_this_distribution_does(tmp_path: Path, release: str, word: str) -> None:
    assert word in install_nsys(machine(tmp_path, **{"etc/os-release": release}))


def test_status_is_read_as_text() -> None:
    assert sampling_of("CPU Profiling Environment (process-tree): OK\n") is True
    assert sampling_of("CPU Profiling Environment (process-tree): Fail\n") is False
    assert sampling_of("something else") is None


def test_json_holds_everything(tmp_path: Path) -> None:
    record = json.loads(look(tmp_path).to_json())
    assert record["schema_version"] == 1 and {c["name"] for c in record["checks"]} >= {"nsys", "GPU", "torch", "nvtx"}


def test_lines_fit_and_remedies_stay_in_one_piece(tmp_path: Path) -> None:
    record = look(tmp_path)
    text = render(record, 80)
    assert all(len(line) <= 80 for line in text.splitlines() if "→" not in line and not line.startswith("unstall"))
    assert all(f"→ {c.remedy}\n" in text for c in record.checks if c.remedy)


def test_this_very_machine_and_nothing_heavy() -> None:
    code = (
        "import sys; from unstall.collect.doctor import doctor; from unstall.commands.doctor import render\n"
        "print(render(doctor()))\n"
        "heavy = {'torch', 'polars', 'numpy', 'nvtx', 'msgspec', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "`unstall run` would use" in out


def test_nsys_record_for_another_tool() -> None:
    assert Nsys(Path("x"), ()).text == "unknown version" and not Nsys(Path("x"), ()).complete
