// How things are called in the one phrase that each link of a chain has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bpf/wire.h"
#include "userspace/blame/stall.h"
#include "userspace/model/trace.h"

namespace stalltrace::blame {

TaskName task_name(const wire::wire_task& task);
std::string text_of(const TaskName& task);    // "fio[4250]"
std::string_view handle_text(uint32_t type);  // ext4's handle types: "inode update"
std::string_view op_text(uint32_t op);        // "write", from a request's op

// "a flush of loop0", "fio[4250] running": what the time ended in, for "waited for ..."
std::string phrase_of(const Root& root, const model::Trace& trace);

// The leaf with the most time under `causes`.
const Root* longest_root(const std::vector<Cause>& causes);

}  // namespace stalltrace::blame
