// Broken job files: whatever they hold, the parser returns or says what is wrong, at once.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "userspace/base/error.h"
#include "workloads/fio_job.h"
#include "workloads/fio_keys.h"
#include "workloads/random.h"

namespace stalltrace::workloads {
namespace {

const std::vector<std::string>& known_keys() {
  static std::vector<std::string> names;
  if (!names.empty()) return names;
  for (std::span<const FioKey> group :
       {fio_io_keys(), fio_file_keys(), fio_pace_keys(), fio_other_keys()}) {
    for (const FioKey& key : group) names.emplace_back(key.name);
  }
  return names;
}

// Writes files that are nearly right: sections, keys and values of the kinds that there are, with
// some of it cut, doubled, exchanged or replaced by any byte.
class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed), keys_(known_keys()) {}

  std::string file() {
    std::string text;
    uint64_t lines = random_.below(random_.below(24) + 1);
    if (random_.below(8) > 0) text += "[job]\nsize=1m\n";
    for (uint64_t i = 0; i < lines; ++i) text += line() + (random_.below(30) == 0 ? "" : "\n");
    for (uint64_t damage = random_.below(6); damage > 0 && !text.empty(); --damage) spoil(text);
    return text;
  }

 private:
  template <size_t kSize>
  std::string one_of(const std::array<const char*, kSize>& words) {
    return words[random_.below(kSize)];
  }

  std::string line() {
    switch (random_.below(12)) {
      case 0:
        return "[" + word() + "]";
      case 1:
        return "[global]";
      case 2:
        return word();
      case 3:
        return "# " + word() + " ; " + word();
      default:
        return keys_[random_.below(keys_.size())] + one_of<4>({"=", "=", " = ", ""}) + value();
    }
  }

  std::string word() {
    std::string text;
    for (uint64_t i = random_.below(12); i > 0; --i) {
      text += static_cast<char>(random_.below(random_.below(4) == 0 ? 256 : 96) + 32);
    }
    return text;
  }

  std::string value() {
    switch (random_.below(10)) {
      case 0:
        return word();
      case 1:
        return std::to_string(random_.next());
      case 2:
        return std::to_string(random_.below(5000)) +
               one_of<10>({"k", "m", "g", "t", "p", "kib", "%", "s", "ms", "d"});
      case 3:
        return value() + one_of<6>({",", ":", "-", "/", "/50:", ",,"}) + value();
      case 4:
        return one_of<8>({"${HOME}", "${", "$ncpus", "${}", "${NOT_THERE}", "$jobname", "$", "$$"});
      case 5:
        return one_of<12>({"libaio", "io_uring", "randrw", "write", "zipf:1.2", "normal:5", "dsync",
                           "wait_before,write:4", "4k/50:8k/50", "/dev/null", "a:b", "native"});
      case 6:
        return std::string(random_.below(random_.below(50) == 0 ? 40000 : 40), '9');
      case 7:
        return "18446744073709551615";
      default:
        return std::to_string(random_.below(70));
    }
  }

  void spoil(std::string& text) {
    size_t at = random_.below(text.size());
    switch (random_.below(5)) {
      case 0:
        text[at] = static_cast<char>(random_.below(256));
        break;
      case 1:
        text.erase(at, random_.below(9));
        break;
      case 2:
        text.insert(at, text.substr(random_.below(text.size()), random_.below(40)));
        break;
      case 3:
        text.insert(at, 1, "[]=\n\0;#:%,-"[random_.below(11)]);
        break;
      default:
        text.resize(at);
    }
  }

  Random random_;
  const std::vector<std::string>& keys_;
};

// The most memory that the process ever had.
uint64_t peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss);
}

// ST_FUZZ_INPUTS and ST_FUZZ_SEED for a longer or another run (scripts/soak).
uint64_t from_environment(const char* name, uint64_t standard) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : standard;
}

TEST(FioFuzz, BrokenFilesAreErrorsOrJobs) {
  using Clock = std::chrono::steady_clock;
  uint64_t inputs = from_environment("ST_FUZZ_INPUTS", 20'000);
  uint64_t seed = from_environment("ST_FUZZ_SEED", 1);
  uint64_t peak_before_kib = peak_kib();
  uint64_t accepted = 0;
  Clock::duration slowest{};
  for (uint64_t i = 0; i < inputs; ++i) {
    std::string text = Writer(seed * 1'000'000'007 + i).file();
    auto start = Clock::now();
    try {
      std::vector<JobSpec> jobs = parse_fio_job(text, "fuzz.fio", {});
      ASSERT_FALSE(jobs.empty());
      for (const JobSpec& job : jobs) check_job(job, "again");
      ++accepted;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ExitCode::kUsage) << error.what() << "\n" << text;
      ASSERT_EQ(std::string(error.what()).substr(0, 8), "fuzz.fio") << error.what();
    }
    slowest = std::max(slowest, Clock::now() - start);
  }
  // A fuzzer whose every file is refused at its first line tests little.
  EXPECT_GT(accepted, inputs / 50);
  EXPECT_LT(accepted, inputs / 2);
  EXPECT_LT(slowest, std::chrono::seconds(5));
  // ASan keeps what was freed for a while: 256 MiB of it.
  EXPECT_LT(peak_kib() - peak_before_kib, uint64_t{600} << 10U);
}

}  // namespace
}  // namespace stalltrace::workloads
