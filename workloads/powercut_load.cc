#include "workloads/powercut_load.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "userspace/base/fd.h"
#include "workloads/disk/process.h"
#include "workloads/disk/random.h"

namespace stalltrace::workloads {
namespace {

constexpr uint64_t kEndTimeout_ns = 10'000'000'000;
constexpr uint64_t kPoll_ns = 1'000'000;
// Of a thread's sync calls the last few are remembered: between a cut and the load's end a thread
// may see one more succeed, whose flush was acknowledged just before.
constexpr size_t kSyncsRemembered = 8;

struct Sync {
  std::atomic<uint64_t> start_ns{0};  // 0: none
  std::atomic<uint64_t> end_ns{0};    // 0: under way
};

struct ThreadState {
  std::atomic<uint64_t> promised{0};  // its files with lower numbers
  std::atomic<uint64_t> syncs{0};     // begun
  std::atomic<int> error{0};
  std::array<Sync, kSyncsRemembered> last{};

  Sync& sync(uint64_t number) { return last[number % kSyncsRemembered]; }
};

std::string powercut_file_name(unsigned thread, uint64_t number) {
  return fmt::format("{:03}-{:07}", thread, number);
}

bool write_whole(int fd, const std::vector<char>& contents) {
  size_t done = 0;
  while (done < contents.size()) {
    const ssize_t written = write(fd, contents.data() + done, contents.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

struct FileLoad::Shared {
  std::atomic<bool> stop{false};
  std::array<ThreadState, kMaxThreads> threads{};
};

std::vector<char> file_contents(const std::string& label, const std::string& name, uint64_t bytes) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  const std::string key = fmt::format("{}/{}", label, name);
  for (const char c : key) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  disk::Random random(hash);
  std::vector<char> contents(bytes);
  for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t word = random.next();
    std::memcpy(contents.data() + at, &word, std::min<uint64_t>(sizeof word, bytes - at));
  }
  return contents;
}

FileFate fate_of(const std::string& folder, const std::string& label, const std::string& name,
                 uint64_t bytes) {
  const Fd fd(open((folder + "/" + name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.get() < 0) return errno == ENOENT ? FileFate::kLost : FileFate::kTorn;
  std::vector<char> found(bytes + 1);
  uint64_t length = 0;
  while (length < found.size()) {
    const ssize_t got = read(fd.get(), found.data() + length, found.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileFate::kTorn;
    if (got == 0) break;
    length += static_cast<uint64_t>(got);
  }
  found.resize(length);
  return found == file_contents(label, name, bytes) ? FileFate::kWhole : FileFate::kTorn;
}

FileLoad::FileLoad(const FileLoadSpec& spec) : spec_(spec) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw failed_error("no memory for the load: {}", std::strerror(errno));
  shared_ = new (memory) Shared;
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) child(parent);
  if (pid_ < 0) {
    const int error = errno;
    munmap(shared_, sizeof(Shared));
    throw failed_error("cannot start the load: {}", std::strerror(error));
  }
}

FileLoad::~FileLoad() {
  try {
    FileLoad::end();
  } catch (const Error&) {
    // Told to who called end().
  }
  munmap(shared_, sizeof(Shared));
}

void FileLoad::child(pid_t parent) {
  prctl(PR_SET_NAME, "stalltrace-load");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  // Ctrl-C is the parent's to understand.
  setpgid(0, 0);
  close_range(3, ~0U, 0);
  std::vector<std::thread> threads;
  try {
    for (unsigned i = 0; i < spec_.threads; ++i) threads.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    shared_->threads[0].error = error.code().value();
  }
  for (std::thread& thread : threads) thread.join();
  _exit(0);
}

void FileLoad::work(unsigned thread) {
  ThreadState& state = shared_->threads[thread];
  const auto fail = [&state] { state.error = errno; };
  for (uint64_t number = 0; !shared_->stop; ++number) {
    const std::string name = powercut_file_name(thread, number);
    const auto contents = file_contents(spec_.label, name, spec_.file_bytes);
    const Fd fd(
        open((spec_.folder + "/" + name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (fd.get() < 0 || !write_whole(fd.get(), contents)) return fail();
    Sync& sync = state.sync(number);
    sync.end_ns = 0;
    sync.start_ns = monotonic_ns();
    state.syncs = number + 1;
    const bool synced = fsync(fd.get()) == 0;
    if (!synced) fail();
    sync.end_ns = monotonic_ns();
    if (!synced) return;
    state.promised = number + 1;
  }
}

uint64_t FileLoad::promised() {
  uint64_t sum = 0;
  for (unsigned i = 0; i < spec_.threads; ++i) {
    const ThreadState& state = shared_->threads[i];
    if (const int error = state.error; error != 0) {
      throw failed_error("the load failed before the power was cut: {}{}", std::strerror(error),
                         error == ENOSPC ? " (give the disk more with --size)" : "");
    }
    sum += state.promised;
  }
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) {
    pid_ = -1;
    throw failed_error("the load's process ended before the power was cut");
  }
  return sum;
}

bool FileLoad::is_syncing() {
  for (unsigned i = 0; i < spec_.threads; ++i) {
    ThreadState& state = shared_->threads[i];
    const uint64_t begun = state.syncs;
    if (begun > 0 && state.sync(begun - 1).end_ns == 0) return true;
  }
  return false;
}

void FileLoad::end() {
  if (pid_ < 0) return;
  shared_->stop = true;
  const uint64_t deadline_ns = monotonic_ns() + kEndTimeout_ns;
  bool killed = false;
  while (true) {
    const pid_t ended = waitpid(pid_, nullptr, WNOHANG);
    if (ended == pid_ || (ended < 0 && errno != EINTR)) break;
    if (monotonic_ns() > deadline_ns) {
      if (killed) throw failed_error("the load's process ({}) does not end", pid_);
      kill(pid_, SIGKILL);
      killed = true;
    }
    disk::sleep_ns(kPoll_ns);
  }
  pid_ = -1;
}

std::optional<uint64_t> FileLoad::syncs_in_flight(uint64_t at_ns) const {
  uint64_t count = 0;
  for (unsigned i = 0; i < spec_.threads; ++i) {
    for (const Sync& sync : shared_->threads[i].last) {
      const uint64_t start_ns = sync.start_ns;
      const uint64_t end_ns = sync.end_ns;
      if (start_ns != 0 && start_ns <= at_ns && (end_ns == 0 || end_ns > at_ns)) ++count;
    }
  }
  return count;
}

PowercutFindings FileLoad::check(bool mounted) {
  PowercutFindings findings;
  for (unsigned i = 0; i < spec_.threads; ++i) {
    const uint64_t promised = shared_->threads[i].promised;
    findings.promised += promised;
    for (uint64_t number = 0; number < promised; ++number) {
      const std::string name = powercut_file_name(i, number);
      const FileFate fate =
          mounted ? fate_of(spec_.folder, spec_.label, name, spec_.file_bytes) : FileFate::kLost;
      if (fate == FileFate::kWhole) continue;
      ++(fate == FileFate::kLost ? findings.lost : findings.torn);
      if (mounted && findings.faults.size() < PowercutFindings::kMaxFaults) {
        findings.faults.push_back(
            fmt::format("{} {}/{}", fate == FileFate::kLost ? "lost" : "torn", spec_.label, name));
      }
    }
  }
  return findings;
}

}  // namespace stalltrace::workloads
