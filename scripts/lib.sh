# What the scripts share. Sourced, with `set -euo pipefail` in force.

root_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '== %s\n' "$*"; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

need_root() {
  [ "$(id -u)" -eq 0 ] || die "run it as root: it installs packages, makes loop devices and loads BPF programs"
}

# configure FOLDER [CMake options]: once, and again when they change. In unity batches: most of the
# time of a build from nothing goes into reading the same headers. By Clang, which the BPF programs
# need anyway: it takes half of GCC's time. scripts/soak builds with the default compiler, too.
configure() {
  local folder=$1
  shift
  CXX=${CXX:-clang++} cmake -S "$root_dir" -B "$folder" -G Ninja \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=8 "$@" >"$folder.log" 2>&1 ||
    { cat "$folder.log" >&2; die "cmake failed"; }
  rm -f "$folder.log"
}

# vm_row KERNEL ROW SEED: a kernel test on another kernel, in scripts/vm. Status 77 where QEMU, that
# kernel or a package for the guest is not to be had (offline).
vm_row() {
  local kernel=$1 row=$2 seed=$3 package
  local words=(--python --add "$root_dir/tests" --memory 2g --timeout 15m --env "KT_SEED=$seed" --env KT_EMULATED=1)
  local packages=()
  for package in $(python3 -B "$root_dir/tests/kernel/run.py" --vm-packages "$row"); do
    packages+=(--package "$package")
  done
  "$root_dir/scripts/vm" --kernel "$kernel" "${packages[@]}" --fetch || {
    echo "skipped: $row: QEMU, Linux $kernel or a package for it is not to be had here (above: why)"
    return 77
  }
  if [ -n "${KT_MAPPED:-}" ]; then words+=(--env "KT_MAPPED=$KT_MAPPED"); fi
  if [ -n "${KT_KEEP:-}" ]; then words+=(--env KT_KEEP=/out --out "$KT_KEEP/$row-$kernel"); fi
  "$root_dir/scripts/vm" --kernel "$kernel" "${packages[@]}" "${words[@]}" -- \
    python3 -B "$root_dir/tests/kernel/run.py" "$row"
}

# mount_if_missing TYPE PLACE: what some kernels' init leaves to us.
mount_if_missing() {
  mountpoint -q "$2" || mount -t "$1" "$1" "$2" 2>/dev/null || true
}
