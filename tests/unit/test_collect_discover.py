"""Every layout in which nsys was seen, built from fakes: found, its version and its importer known, the best picked."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import fake_nsys
import pytest

from unstall.nsys import discover, libraries
from unstall.nsys.discover import Place, find_ncu, find_nsys, importer_beside, version_of

TARGET, HOST = "target-linux-x64", "host-linux-x64"
LAYOUTS = {  # where nsys is, where its importer is
    "standalone": ("opt/nvidia/nsight-systems/2024.5.1", TARGET, HOST),
    "cli only": ("opt/nvidia/nsight-systems-cli/2024.5.1", TARGET, HOST),
    "toolkit": ("usr/local/cuda-12.6/nsight-systems-2024.5.1", TARGET, HOST),
    "inside Nsight Compute": ("opt/nvidia/nsight-compute/2025.3.1/host", TARGET, "linux-desktop-glibc_2_11_3-x64"),
    "Debian": ("usr/lib", f"x86_64-linux-gnu/nsight-systems/{TARGET}", f"nsight-systems/{HOST}"),
    "HPC SDK": ("opt/nvidia/hpc_sdk/Linux_x86_64/24.5/profilers/Nsight_Systems", TARGET, HOST),
}


def place(root: Path, machine: str = "x86_64", **environ: str) -> Place:
    return Place(root, {"PATH": "", **environ}, machine)


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout_is_found_with_its_importer(tmp_path: Path, name: str) -> None:
    tree, target, host = LAYOUTS[name]
    binary = fake_nsys.nsys(tmp_path / tree / target)
    importer = fake_nsys.importer(tmp_path / tree / host)
    (found,) = find_nsys(place(tmp_path))
    assert (found.path, found.version, found.importer) == (binary, (2024, 5, 1), importer)
    assert found.complete and not found.error
    assert found.whole == (name not in ("inside Nsight Compute", "Debian")), "nsys itself looks beside its own folder"


def test_arm_server_has_its_own_folder_names(tmp_path: Path) -> None:
    tree = tmp_path / "opt/nvidia/nsight-systems/2024.5.1"
    fake_nsys.nsys(tree / "target-linux-x64", "2024.9.9")
    arm = fake_nsys.nsys(tree / "target-linux-sbsa-armv8")
    importer = fake_nsys.importer(tree / "host-linux-armv8")
    (found,) = find_nsys(place(tmp_path, "aarch64"))
    assert (found.path, found.importer) == (arm, importer)


def test_conda_home_and_cuda_home_are_looked_at(tmp_path: Path) -> None:
    conda = fake_nsys.nsys(tmp_path / "env/nsight-compute/2024.1/host/target-linux-x64", "2024.1.1")
    home = fake_nsys.nsys(tmp_path / "me/nsight-systems-2023.4/target-linux-x64", "2023.4.4")
    cuda = fake_nsys.nsys(tmp_path / "cuda/nsight-systems-2022.4/target-linux-x64", "2022.4.2")
    where = {"CONDA_PREFIX": tmp_path / "env", "HOME": tmp_path / "me", "CUDA_HOME": tmp_path / "cuda"}
    found = find_nsys(place(tmp_path / "root", **{k: str(v) for k, v in where.items()}))
    assert [t.path for t in found] == [conda, home, cuda]


def test_links_to_one_binary_are_one_nsys(tmp_path: Path) -> None:
    real = fake_nsys.nsys(tmp_path / "usr/lib/x86_64-linux-gnu/nsight-systems/target-linux-x64")
    (tmp_path / "usr/bin").mkdir()
    (tmp_path / "usr/bin/nsys").symlink_to(real)
    (tmp_path / "usr/lib/nsight-systems").mkdir()
    (tmp_path / "usr/lib/nsight-systems/target-linux-x64").symlink_to(real.parent)
    importer = fake_nsys.importer(tmp_path / "usr/lib/nsight-systems/host-linux-x64")
    (found,) = find_nsys(place(tmp_path, PATH=str(tmp_path / "usr/bin")))
    assert found.source == "PATH" and found.importer == importer


def test_complete_beats_newer_and_the_users_word_beats_all(tmp_path: Path) -> None:
    old = tmp_path / "opt/nvidia/nsight-systems/2023.4.4"
    fake_nsys.nsys(old / "target-linux-x64", "2023.4.4")
    fake_nsys.importer(old / "host-linux-x64")
    new = fake_nsys.nsys(tmp_path / "opt/nvidia/nsight-systems/2025.1.1/target-linux-x64", "2025.1.1")
    assert [t.text for t in find_nsys(place(tmp_path))] == ["2023.4.4", "2025.1.1"]
    named = find_nsys(place(tmp_path, NSYS=str(new)))
    assert (named[0].path, named[0].source, named[0].importer) == (new, "$NSYS", None)
    assert find_nsys(place(tmp_path, NSYS=str(new.parent)))[0].path == new


def test_newest_of_several_complete_ones(tmp_path: Path) -> None:
    for version in ("2024.2.3", "2024.10.1", "2024.9.1"):
        tree = tmp_path / f"opt/nvidia/nsight-systems/{version}"
        fake_nsys.nsys(tree / "target-linux-x64", version)
        fake_nsys.importer(tree / "host-linux-x64")
    assert [t.text for t in find_nsys(place(tmp_path))] == ["2024.10.1", "2024.9.1", "2024.2.3"]


def test_one_that_does_not_run_comes_last_and_says_why(tmp_path: Path) -> None:
    broken = fake_nsys.executable(
        tmp_path / "opt/nvidia/nsight-systems/2025.9.1/target-linux-x64/nsys",
        "#!/bin/sh\necho 'nsys: error while loading shared libraries: libfoo.so.2: cannot open' >&2; exit 127\n",
    )
    fake_nsys.nsys(tmp_path / "opt/nvidia/nsight-systems/2022.4.2/target-linux-x64", "2022.4.2")
    found = find_nsys(place(tmp_path))
    assert [t.text for t in found] == ["2022.4.2", "2025.9.1"]
    assert found[1].path == broken and found[1].error == "lacks libfoo.so.2" and not found[1].complete


def test_bare_machine(tmp_path: Path) -> None:
    assert find_nsys(place(tmp_path)) == [] and find_ncu(place(tmp_path)) == []


def test_wrong_file_in_the_environment_is_reported_not_raised(tmp_path: Path) -> None:
    (found,) = find_nsys(place(tmp_path, NSYS=str(tmp_path / "nothing")))
    assert found.error and not found.complete


def test_ncu_is_found_newest_first(tmp_path: Path) -> None:
    for version in ("2024.1.1", "2025.3.1"):
        fake_nsys.executable(tmp_path / f"opt/nvidia/nsight-compute/{version}/ncu", "#!/bin/sh\n")
    assert [p.parent.name for p in find_ncu(place(tmp_path))] == ["2025.3.1", "2024.1.1"]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVIDIA Nsight Systems version 2022.4.2.1-df9881f", (2022, 4, 2, 1)),
        ("NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0", (2025, 3, 1, 90)),
        ("/opt/nvidia/nsight-systems/2024.5.1/target-linux-x64/nsys", (2024, 5, 1)),
        ("no version here, not even 12.4", ()),
    ],
)
def test_version(text: str, version: tuple[int, ...]) -> None:
    assert version_of(text) == version


def test_importer_of_another_architecture_is_not_taken(tmp_path: Path) -> None:
    binary = fake_nsys.nsys(tmp_path / "t/target-linux-x64")
    fake_nsys.importer(tmp_path / "t/host-linux-sbsa-armv8")
    assert importer_beside(binary, place(tmp_path)) is None


LDD = """
    linux-vdso.so.1 (0x00007ffd)
    libdw.so.1 => not found
    libpfm.so.4 => not found
    libAnalysis.so => /opt/x/libAnalysis.so (0x00007f)
    libdw.so.1 => not found
"""


def test_missing_libraries_are_read_from_ldd_and_from_the_loader() -> None:
    assert libraries.not_found(LDD) == ["libdw.so.1", "libpfm.so.4"]
    assert libraries.not_found("x: error while loading shared libraries: libdw.so.1: cannot open") == ["libdw.so.1"]
    assert libraries.not_found("statically linked") == []


def test_what_ldd_does_not_reach_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """libpfm is needed by a library that the importer opens as it runs; libelf by libdw, which is not there itself."""
    importer, plugin = tmp_path / "host/QdstrmImporter", tmp_path / "host/libplugin.so"
    importer.parent.mkdir()
    importer.write_text("")
    plugin.write_text("")
    ldd, true = tmp_path / "bin/ldd", tmp_path / "bin/true"
    ldd.parent.mkdir()
    ldd.write_text(
        '#!/bin/sh\ncase "$*" in *Importer*) echo "  libdw.so.1 => not found";;\n'
        '*) echo "  libpfm.so.4 => not found"; echo "  libQt6Core.so.6 => not found";; esac\n'
    )
    loader = "ERROR: ld.so: object '%s' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored."
    true.write_text(
        f"""#!/bin/sh\nfor l in $LD_PRELOAD; do case $l in libelf*) printf "{loader}\\n" $l >&2;; esac; done\n"""
    )
    ldd.chmod(0o755)
    true.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert libraries.missing(importer) == ["libdw.so.1"]
    assert libraries.lacking(importer) == ["libdw.so.1", "libpfm.so.4", "libelf.so.1"]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the words are those of glibc's loader")
def test_the_real_loader_names_what_it_cannot_load() -> None:
    missing = ["libnothing-of-this-name.so.7"]
    assert libraries._not_loadable([*missing, "libc.so.6"], {"PATH": os.environ["PATH"]}) == missing
    assert libraries.lacking(Path(sys.executable).resolve()) == []


@pytest.mark.parametrize(
    ("release", "command"),
    [
        ("ID=ubuntu\nID_LIKE=debian\n", "apt-get install -y libdw1 libpfm4"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf install -y elfutils-libs libpfm"),
        ("ID=arch\n", "pacman -S libelf libpfm"),
        ("", "install what provides libdw.so.1, libpfm.so.4"),
    ],
)
def test_install_command_is_of_this_distribution(tmp_path: Path, release: str, command: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(release)
    assert libraries.install_command(["libdw.so.1", "libpfm.so.4"], tmp_path) == command


def test_libraries_brought_along_are_searched() -> None:
    env = libraries.with_libraries([Path("/host")], {"UNSTALL_LIBS": "/mine:/more", "LD_LIBRARY_PATH": "/old"})
    assert env["LD_LIBRARY_PATH"] == "/host:/mine:/more:/old"
    assert "LD_LIBRARY_PATH" not in libraries.with_libraries([], {})


def test_every_machine_has_targets_and_hosts() -> None:
    assert discover.FOLDERS.keys() == discover.HOSTS.keys()
