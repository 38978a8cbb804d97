// Loop devices made for one disk and removed with it.
#pragma once

#include <cstdint>
#include <string>

namespace stalltrace::disk {

std::string loop_name(int number);    // "loop3"
std::string loop_device(int number);  // "/dev/loop3"

// The lowest number at or above `from` that no loop device has.
int free_loop_number(int from);

// False if the number was taken meanwhile. A refused Error where loop devices cannot be made.
bool add_loop(int number);

// False if it is attached or open: somebody else uses it. True if it is gone.
bool remove_loop(int number);

// The file a loop device is attached to; empty if it is detached or does not exist.
std::string loop_backing_file(int number);

uint32_t loop_kdev(int number);

// Attaches with direct I/O. False if somebody else attached it first; a failed Error else.
bool attach_loop(int number, const std::string& backing_file, uint32_t block_size);

// Asks for the detaching, which comes when the last user closes the device, and closes it, which
// writes back what is dirty. Returns errno, 0 also if it was detached. May block for as long as
// the disk takes, so it is run in a process of its own: async-signal-safe.
int detach_loop_raw(const char* device);

}  // namespace stalltrace::disk
