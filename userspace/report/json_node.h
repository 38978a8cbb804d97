// A place in a JSON document that knows its own path, so that errors can say where.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/base/error.h"

namespace stalltrace::report {

class JsonNode {
 public:
  using Json = nlohmann::ordered_json;

  // `json` must outlive the node.
  JsonNode(const Json& json, std::string what) : json_(&json), what_(std::move(what)) {}

  [[nodiscard]] const Json& json() const { return *json_; }

  // A member that must be there; one that may be missing.
  [[nodiscard]] JsonNode at(const char* key) const;
  [[nodiscard]] std::optional<JsonNode> find(const char* key) const;
  // Elements of an array member, members of an object member with their keys; a missing one has
  // none.
  [[nodiscard]] std::vector<JsonNode> items(const char* key) const;
  [[nodiscard]] std::vector<std::pair<std::string, JsonNode>> members(const char* key) const;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool flag() const;
  [[nodiscard]] double real() const;
  // A whole number from 0 to `most`.
  [[nodiscard]] uint64_t number(uint64_t most = std::numeric_limits<uint64_t>::max()) const;
  // From microseconds to nanoseconds; a duration is never negative, an offset may be.
  [[nodiscard]] uint64_t us_as_ns() const;
  [[nodiscard]] int64_t offset_as_ns() const;
  // "MAJOR:MINOR" to the kernel's dev_t.
  [[nodiscard]] uint32_t kdev() const;

  template <typename... Args>
  [[nodiscard]] Error error(fmt::format_string<Args...> format, Args&&... args) const {
    return usage_error("{}: {}", where(), fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  JsonNode(const Json& json, std::string what, std::string path)
      : json_(&json), what_(std::move(what)), path_(std::move(path)) {}
  [[nodiscard]] std::string where() const;
  [[nodiscard]] JsonNode member(const Json& json, const std::string& key) const;

  const Json* json_;
  std::string what_;
  std::string path_;
};

// A document from text that may be anybody's: not nested without end. `what` names it in errors.
// Throws a usage Error for text that is not JSON.
JsonNode::Json parse_json(std::string_view text, std::string_view what);

}  // namespace stalltrace::report
