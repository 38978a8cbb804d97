// One cell of the direct-I/O matrix: a test with one block size and number of threads on one file
// or device; and the file it needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace::workloads {

enum class DioTest { kRead, kRandRead, kWrite, kRandWrite, kMixed };
std::string_view dio_test_name(DioTest test);
std::optional<DioTest> dio_test_of(std::string_view name);
const std::vector<std::string>& dio_test_names();

enum class DioWriters {
  kDirect,    // overwrites by direct I/O
  kBuffered,  // through the page cache
  kExtending  // direct, each at the end of the file, which grows
};
std::string_view dio_writers_name(DioWriters writers);
std::optional<DioWriters> dio_writers_of(std::string_view name);
const std::vector<std::string>& dio_writers_names();

enum class DioLayout { kWritten, kFallocated, kSparse };
std::string_view dio_layout_name(DioLayout layout);
std::optional<DioLayout> dio_layout_of(std::string_view name);
const std::vector<std::string>& dio_layout_names();

// A file that lives as long as its scenario and that nobody works on in it.
struct DioFileSpec {
  std::string path;
  uint64_t bytes = 0;
  DioLayout layout = DioLayout::kWritten;
};

struct DioCellSpec {
  std::string path;  // there already: a file of ours, or a device
  bool raw = false;
  bool destroy_data = false;
  uint64_t bytes = 0;  // of it that are read and overwritten
  uint64_t block_bytes = 4096;
  unsigned threads = 1;  // of each kind, where the test both reads and writes
  DioTest test = DioTest::kMixed;
  DioWriters writers = DioWriters::kDirect;
  uint64_t runtime_ns = 0;

  [[nodiscard]] bool reads() const {
    return test == DioTest::kRead || test == DioTest::kRandRead || test == DioTest::kMixed;
  }
  [[nodiscard]] bool writes() const {
    return test == DioTest::kWrite || test == DioTest::kRandWrite || test == DioTest::kMixed;
  }
  [[nodiscard]] bool linear() const { return test == DioTest::kRead || test == DioTest::kWrite; }
};

}  // namespace stalltrace::workloads
