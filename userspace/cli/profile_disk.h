// An emulated disk of a kind, with ext4 on it, for as long as this object lives.
#pragma once

#include <string>
#include <vector>

#include "workloads/own_disk.h"

namespace stalltrace::cli {

// "all" and names of kinds -> names. Throws a usage Error for a kind that there is not.
std::vector<std::string> profiles_named(const std::vector<std::string>& words);

class ProfileDisk {
 public:
  // Throws as disk::create does, and a failed Error without mkfs.ext4.
  explicit ProfileDisk(const std::string& profile);

  [[nodiscard]] const std::string& directory() const { return system_.folder(); }

 private:
  workloads::OwnDisk disk_;
  workloads::OwnFileSystem system_;
};

}  // namespace stalltrace::cli
