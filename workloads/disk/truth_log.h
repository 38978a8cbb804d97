// The truth log: what the server did and when, a CSV line per request. The lines go through a pipe
// to a process of its own that writes the file: a journal that stalls under the log must not stall
// the emulated disk, and a server killed with SIGKILL loses no line of a request it had answered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "workloads/disk/schedule.h"

namespace stalltrace::disk {

struct TruthLine {
  Op op;
  uint64_t start_ns;  // CLOCK_MONOTONIC when the request arrived
  uint64_t end_ns;    // immediately before it was answered
  uint64_t offset;
  uint64_t bytes;
};

inline constexpr const char* kTruthHeader = "op,start_ns,end_ns,offset,bytes\n";

// Begins the line on standard error (the daemon's log) that tells of a file that took no more.
inline constexpr const char* kTruthFailure = "truth log: ";

std::string format_truth_line(const TruthLine& line);

class TruthWriter {
 public:
  // Does not own `pipe_fd`.
  explicit TruthWriter(int pipe_fd) : pipe_fd_(pipe_fd) {}
  // From any thread. A line is one write, so lines never mix.
  void write(const TruthLine& line) const;

 private:
  int pipe_fd_;
};

// Copies the pipe on descriptor 0 to the file until the last writer is gone. While it has lines in
// hand it holds the file's lock (flock), which settle_pipe relies on.
void copy_truth(int pipe_fd, int file_fd);

// Waits until all that was written to the pipe (opened through /proc/LOGGER/fd/0) is in the file.
// False if that took longer than `timeout_ns`.
bool settle_pipe(pid_t logger, const std::string& file, uint64_t timeout_ns);

}  // namespace stalltrace::disk
