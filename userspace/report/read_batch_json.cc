// What `beside` needs of a batch analysis's JSON.
#include <limits>

#include "userspace/report/batch.h"
#include "userspace/report/beside.h"
#include "userspace/report/clean_text.h"
#include "userspace/report/json_node.h"

namespace stalltrace::report {
namespace {

constexpr uint64_t kMostThreads = std::numeric_limits<unsigned>::max();

void check_batch_schema(const JsonNode& top) {
  std::optional<JsonNode> schema = top.find("schema");
  if (!schema) throw top.error("is not the JSON of a batch: write one with batch --json");
  std::string name = schema->text();
  if (name == kBatchSchema) return;
  throw top.error("its schema is '{}', not '{}': write one with this version's batch --json",
                  printable(name, false), kBatchSchema);
}

// A rate that can be divided by.
double rate(const JsonNode& node) {
  double value = node.real();
  if (!(value > 0)) throw node.error("is no rate");
  return value;
}

std::string optional_text(const JsonNode& node, const char* key) {
  std::optional<JsonNode> found = node.find(key);
  return found ? found->text() : std::string();
}

OtherRun run_of(const JsonNode& node) {
  OtherRun run;
  run.device = optional_text(node, "device");
  run.setting = optional_text(node, "setting");
  run.sync = node.at("sync").text();
  for (const auto& [knob, value] : node.members("knobs")) run.knobs[knob] = value.text();
  run.threads = static_cast<unsigned>(node.at("threads").number(kMostThreads));
  run.files_per_s = rate(node.at("files_per_s"));
  for (const JsonNode& loop : node.items("files_per_s_of_loops")) run.loops.push_back(rate(loop));
  return run;
}

}  // namespace

OtherBatch read_batch_json(std::string_view text, const std::string& file) {
  const JsonNode::Json json = parse_json(text, file);
  JsonNode top(json, file);
  check_batch_schema(top);
  OtherBatch other;
  other.file = file;
  JsonNode host = top.at("host");
  other.host.kernel = host.at("kernel").text();
  other.host.arch = host.at("arch").text();
  other.host.cpus = static_cast<uint32_t>(host.at("cpus").number(kMostThreads));
  other.host.cpu = optional_text(host, "cpu");
  other.version = optional_text(top.at("tool"), "version");
  other.work = optional_text(top, "work");
  if (std::optional<JsonNode> load = top.find("load")) {
    other.load = {.files = load->at("files").number(),
                  .file_bytes = load->at("file_bytes").number()};
  }
  std::vector<JsonNode> devices = top.items("devices");
  if (!devices.empty()) other.disk = optional_text(devices.front(), "name");
  for (const JsonNode& run : top.items("runs")) other.runs.push_back(run_of(run));
  if (other.runs.empty()) throw top.error("has no runs: nothing to set beside");
  return other;
}

}  // namespace stalltrace::report
