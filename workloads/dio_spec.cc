#include "workloads/dio_spec.h"

#include "workloads/named_values.h"

namespace stalltrace::workloads {
namespace {

constexpr std::array<std::string_view, 5> kDioTests{"read", "randread", "write", "randwrite",
                                                    "mixed"};
constexpr std::array<std::string_view, 3> kDioWriters{"direct", "buffered", "extending"};
constexpr std::array<std::string_view, 3> kDioLayouts{"written", "fallocated", "sparse"};

}  // namespace

std::string_view dio_test_name(DioTest test) {
  return kDioTests[static_cast<size_t>(test)];
}
std::optional<DioTest> dio_test_of(std::string_view name) {
  return value_named<DioTest>(kDioTests, name);
}
const std::vector<std::string>& dio_test_names() {
  static const std::vector<std::string> names = as_strings(kDioTests);
  return names;
}

std::string_view dio_writers_name(DioWriters writers) {
  return kDioWriters[static_cast<size_t>(writers)];
}
std::optional<DioWriters> dio_writers_of(std::string_view name) {
  return value_named<DioWriters>(kDioWriters, name);
}
const std::vector<std::string>& dio_writers_names() {
  static const std::vector<std::string> names = as_strings(kDioWriters);
  return names;
}

std::string_view dio_layout_name(DioLayout layout) {
  return kDioLayouts[static_cast<size_t>(layout)];
}
std::optional<DioLayout> dio_layout_of(std::string_view name) {
  return value_named<DioLayout>(kDioLayouts, name);
}
const std::vector<std::string>& dio_layout_names() {
  static const std::vector<std::string> names = as_strings(kDioLayouts);
  return names;
}

}  // namespace stalltrace::workloads
