# Runs in the guest of scripts/vm: a stall on an emulated slow disk, traced. `doctor` first, unless
# told `only`. Leaves the report and the disk's log of the truth in /out, for judge.py.
status=0
if [ "${1:-only}" = doctor ]; then
  stalltrace doctor || status=$?
fi
# One slow flush in each of these seconds, and one of them while the load runs, however slow this
# guest is.
for from in 5 10 15 20 25 30 35 40 45 50 55 60 65 70 75 80; do
  echo "${from}s $((from + 1))s flush 1.5s"
done >/tmp/schedule
device=$(stalltrace disk create smoke --size 256m --flush 10ms --schedule /tmp/schedule --truth /out/truth.csv) ||
  exit 1
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$device" || exit 1
mount -t ext4 "$device" /mnt || exit 1
# The kernel's own count of commits, all along: /proc/uptime is the report's clock.
while sleep 0.2; do
  read -r now _ </proc/uptime
  read -r commits _ <"/proc/fs/jbd2/${device##*/}-8/info"
  echo "$now $commits"
done >/out/commits &
counter=$!
stalltrace run chunk-server --dir /mnt --jobs 2 --iodepth 4 --bs 16k --size 8m --runtime 12s --json /out/report.json \
  --ops-log /out/ops.csv --ops-log-floor 0 || status=$?
sleep 0.5
kill $counter
umount /mnt
stalltrace disk destroy smoke || status=1
exit $status
