#include "userspace/report/explain_json.h"

#include <set>

#include "userspace/report/clean_text.h"
#include "userspace/report/plain_words.h"

namespace stalltrace::report {
namespace {

using Json = nlohmann::ordered_json;
using dump::Dump;
using dump::Explanation;
using dump::Task;

void add_task(Json& node, const Task& task) {
  if (task.pid != 0) node["tid"] = task.pid;
  if (!task.comm.empty()) node["comm"] = valid_utf8(task.comm);
}

Json task_json(const Task& task) {
  Json node = Json::object();
  add_task(node, task);
  if (task.state != 0) node["state"] = valid_utf8(std::string(1, task.state));
  if (task.blocked_s > 0) node["blocked_s"] = task.blocked_s;
  if (task.count > 1) node["count"] = task.count;
  if (task.total_us > 0) node["total_us"] = task.total_us;
  if (task.max_us > 0) node["max_us"] = task.max_us;
  if (task.times_seen > 1) node["times_seen"] = task.times_seen;
  if (task.moved) node["moved"] = true;
  if (!task.workqueue.empty()) node["workqueue"] = valid_utf8(task.workqueue);
  node["line"] = task.line;
  return node;
}

Json stack_json(const Task& task) {
  Json frames = Json::array();
  for (const dump::Frame& frame : task.frames) {
    frames.push_back((frame.unreliable ? "? " : "") + valid_utf8(frame.symbol));
  }
  return frames;
}

std::string_view role_of(const dump::Reading& reading) {
  if (reading.journal_thread) return "committer";
  if (!reading.serves.empty()) return "device";
  if (reading.handle == dump::Handle::kOpen) return "holder";
  if (reading.runnable) return "runnable";
  return "victim";
}

Json chain_json(const Dump& dump, const std::vector<dump::Link>& chain,
                const Explanation& explanation) {
  Json links = Json::array();
  for (const dump::Link& link : chain) {
    Json node = Json::object();
    if (link.task) {
      add_task(node, dump.tasks[*link.task]);
      node["class"] = kernel::name_of(explanation.readings[*link.task].wait_class);
    }
    node["text"] = valid_utf8(link.text);
    node["sure"] = dump::name_of(link.sure);
    Json others = Json::array();
    for (size_t at : link.also) {
      if (at == link.task) continue;
      Json other = Json::object();
      add_task(other, dump.tasks[at]);
      others.push_back(std::move(other));
    }
    if (!others.empty()) node["also"] = std::move(others);
    links.push_back(std::move(node));
  }
  return links;
}

Json roots_json(const Dump& dump, const Explanation& explanation) {
  Json roots = Json::array();
  for (const dump::Root& root : explanation.roots) {
    Json node{{"cause", root.cause}};
    if (!root.dev.empty()) node["dev"] = valid_utf8(root.dev);
    if (root.task) add_task(node, dump.tasks[*root.task]);
    node["waiting"] = root.waiting.size();
    node["sure"] = dump::name_of(root.sure);
    node["text"] = valid_utf8(root.text);
    node["chain"] = chain_json(dump, root.chain, explanation);
    roots.push_back(std::move(node));
  }
  return roots;
}

Json groups_json(const Dump& dump, const Explanation& explanation) {
  Json groups = Json::array();
  for (const dump::Group& group : explanation.groups) {
    const size_t first = group.tasks.front();
    const dump::Reading& reading = explanation.readings[first];
    Json node{{"class", kernel::name_of(group.wait_class)},
              {"role", role_of(reading)},
              {"meaning", group.meaning.empty() ? std::string(meaning_of(group.wait_class))
                                                : valid_utf8(group.meaning)},
              {"sure", dump::name_of(group.sure)},
              {"count", group.tasks.size()}};
    if (reading.handle != dump::Handle::kNone) {
      node["handle"] = {{"sure", reading.handle == dump::Handle::kOpen ? "inferred" : "guess"},
                        {"frame", valid_utf8(reading.handle_frame)}};
    }
    if (group.root) node["root"] = *group.root;
    node["stack"] = stack_json(dump.tasks[first]);
    Json tasks = Json::array();
    for (size_t at : group.tasks) tasks.push_back(task_json(dump.tasks[at]));
    node["tasks"] = std::move(tasks);
    groups.push_back(std::move(node));
  }
  return groups;
}

Json committers_json(const Dump& dump, const Explanation& explanation) {
  Json committers = Json::array();
  for (const dump::Committer& one : explanation.committers) {
    Json node = Json::object();
    add_task(node, dump.tasks[one.task]);
    if (!one.dev.empty()) node["dev"] = valid_utf8(one.dev);
    node["idle"] = one.idle;
    if (!one.idle) {
      node["class"] = kernel::name_of(one.phase);
      node["sure"] = dump::name_of(one.sure);
    }
    node["stack"] = stack_json(dump.tasks[one.task]);
    committers.push_back(std::move(node));
  }
  return committers;
}

Json cycles_json(const Dump& dump, const Explanation& explanation) {
  Json cycles = Json::array();
  for (const dump::Cycle& cycle : explanation.cycles) {
    Json edges = Json::array();
    for (const dump::Edge& edge : cycle) {
      Json from = Json::object();
      Json to = Json::object();
      add_task(from, dump.tasks[edge.from]);
      add_task(to, dump.tasks[edge.to]);
      edges.push_back({{"from", from},
                       {"to", to},
                       {"text", valid_utf8(edge.text)},
                       {"sure", dump::name_of(edge.sure)}});
    }
    cycles.push_back({{"edges", edges}});
  }
  return cycles;
}

}  // namespace

Json explain_json(const Dump& dump, const Explanation& explanation, std::string_view source,
                  std::string_view version, const std::vector<std::string>& command) {
  Json words = Json::array();
  for (const std::string& word : command) words.push_back(valid_utf8(word));
  Json forms = Json::array();
  std::set<std::string_view> seen;
  for (const Task& task : dump.tasks) {
    if (seen.insert(dump::name_of(task.form)).second) forms.push_back(dump::name_of(task.form));
  }
  Json text{{"name", valid_utf8(source)}, {"lines", dump.lines}, {"forms", forms}};
  if (!dump.kernel.empty()) text["kernel"] = valid_utf8(dump.kernel);
  text["tasks"] = dump.tasks.size();
  text["blocked_only"] = dump.lists_blocked_only;
  text["all_tasks"] = dump.sysrq_all;
  text["cut"] = dump.cut;
  Json advice = Json::array();
  for (const dump::Advice& one : explanation.advice) {
    advice.push_back({{"text", one.text}, {"commands", one.commands}});
  }
  Json notes = Json::array();
  for (const std::string& one : explanation.notes) notes.push_back(valid_utf8(one));
  return {{"schema", kExplainSchema},
          {"tool", {{"version", version}, {"command", words}}},
          {"source", text},
          {"tasks",
           {{"blocked", explanation.blocked},
            {"runnable", explanation.runnable},
            {"idle", explanation.idle}}},
          {"holder_missing", explanation.holder_missing},
          {"roots", roots_json(dump, explanation)},
          {"cycles", cycles_json(dump, explanation)},
          {"committers", committers_json(dump, explanation)},
          {"groups", groups_json(dump, explanation)},
          {"notes", notes},
          {"advice", advice}};
}

}  // namespace stalltrace::report
