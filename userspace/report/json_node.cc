#include "userspace/report/json_node.h"

#include <charconv>
#include <cmath>

#include "userspace/kernel/devices.h"
#include "userspace/report/clean_text.h"

namespace stalltrace::report {
namespace {

// Beyond this many nanoseconds (285 years) no time of a report can be.
constexpr double kMostNs = 9e18;

// Each link of a chain is two levels. No chain that blame builds comes near; a hostile file must
// not exhaust the stack of what walks it.
constexpr int kDeepest = 256;

}  // namespace

JsonNode::Json parse_json(std::string_view text, std::string_view what) {
  auto check_depth = [what](int depth, JsonNode::Json::parse_event_t /*event*/,
                            JsonNode::Json& /*parsed*/) {
    if (depth > kDeepest) throw usage_error("{}: nested deeper than {}", what, kDeepest);
    return true;
  };
  if (text.empty()) throw usage_error("{}: is empty", what);
  try {
    return JsonNode::Json::parse(text, check_depth);
  } catch (const JsonNode::Json::parse_error& error) {
    throw usage_error("{}: not JSON: something is wrong at byte {} of {}", what, error.byte,
                      text.size());
  } catch (const JsonNode::Json::out_of_range&) {
    throw usage_error("{}: holds a number that is out of range", what);
  }
}

std::string JsonNode::where() const {
  // The path holds keys of the document: whoever wrote it must not write to our terminal.
  std::string path = printable(path_, false);
  return path.empty() ? what_ : what_ + ": " + path;
}

JsonNode JsonNode::member(const Json& json, const std::string& key) const {
  return {json, what_, path_.empty() ? key : path_ + "." + key};
}

std::optional<JsonNode> JsonNode::find(const char* key) const {
  if (!json_->is_object()) throw error("is not an object");
  auto found = json_->find(key);
  if (found == json_->end() || found->is_null()) return std::nullopt;
  return member(*found, key);
}

JsonNode JsonNode::at(const char* key) const {
  std::optional<JsonNode> found = find(key);
  if (!found) throw error("'{}' is missing", key);
  return *found;
}

std::vector<JsonNode> JsonNode::items(const char* key) const {
  std::optional<JsonNode> list = find(key);
  if (!list) return {};
  if (!list->json_->is_array()) throw list->error("is not an array");
  std::vector<JsonNode> nodes;
  for (const Json& item : *list->json_) {
    nodes.push_back(JsonNode(item, what_, fmt::format("{}[{}]", list->path_, nodes.size())));
  }
  return nodes;
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members(const char* key) const {
  std::optional<JsonNode> object = find(key);
  if (!object) return {};
  if (!object->json_->is_object()) throw object->error("is not an object");
  std::vector<std::pair<std::string, JsonNode>> nodes;
  for (const auto& [name, item] : object->json_->items()) {
    nodes.emplace_back(name, object->member(item, name));
  }
  return nodes;
}

std::string JsonNode::text() const {
  if (!json_->is_string()) throw error("is not a string");
  return json_->get<std::string>();
}

bool JsonNode::flag() const {
  if (!json_->is_boolean()) throw error("is neither true nor false");
  return json_->get<bool>();
}

double JsonNode::real() const {
  if (!json_->is_number()) throw error("is not a number");
  return json_->get<double>();
}

uint64_t JsonNode::number(uint64_t most) const {
  bool whole =
      json_->is_number_unsigned() || (json_->is_number_integer() && json_->get<int64_t>() >= 0);
  if (!whole || json_->get<uint64_t>() > most) {
    throw error("is not a whole number from 0 to {}", most);
  }
  return json_->get<uint64_t>();
}

int64_t JsonNode::offset_as_ns() const {
  double ns = real() * 1000;
  if (!(std::fabs(ns) < kMostNs)) throw error("is not a time in microseconds");
  if (json_->is_number_integer()) return json_->get<int64_t>() * 1000;
  return std::llround(ns);
}

uint64_t JsonNode::us_as_ns() const {
  int64_t ns = offset_as_ns();
  if (ns < 0) throw error("is negative");
  return static_cast<uint64_t>(ns);
}

uint32_t JsonNode::kdev() const {
  std::string name = text();
  const char* end = name.data() + name.size();
  uint32_t major = 0;
  uint32_t minor = 0;
  auto [colon, major_error] = std::from_chars(name.data(), end, major);
  bool ok = major_error == std::errc() && colon != end && *colon == ':' && major < 1U << 12;
  if (ok) {
    auto [rest, minor_error] = std::from_chars(colon + 1, end, minor);
    ok = minor_error == std::errc() && rest == end && minor < 1U << 20;
  }
  if (!ok) throw error("'{}' is no device (like 7:0)", printable(name, false));
  return kernel::make_kdev(major, minor);
}

}  // namespace stalltrace::report
