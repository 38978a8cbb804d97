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
# time of a build from nothing goes into reading the same headers.
configure() {
  local folder=$1
  shift
  cmake -S "$root_dir" -B "$folder" -G Ninja \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=8 "$@" >"$folder.log" 2>&1 ||
    { cat "$folder.log" >&2; die "cmake failed"; }
  rm -f "$folder.log"
}

# mount_if_missing TYPE PLACE: what some kernels' init leaves to us.
mount_if_missing() {
  mountpoint -q "$2" || mount -t "$1" "$1" "$2" 2>/dev/null || true
}
