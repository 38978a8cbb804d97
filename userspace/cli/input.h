// Files that a command is given to read.
#pragma once

#include <functional>
#include <string>

namespace stalltrace::cli {

// Throws a usage Error for text that is none of what is wanted: asked early, before a gigabyte of
// something else is read.
using TextCheck = std::function<void(const std::string& text, const std::string& name)>;

// All of it. `name` is what errors call it. Throw a usage Error for what cannot be read and for
// more than 1 GiB: a mistaken argument like /dev/zero ends there.
std::string read_all(int fd, const std::string& name, const TextCheck& check = {});
std::string read_file(const std::string& path, const TextCheck& check = {});

}  // namespace stalltrace::cli
