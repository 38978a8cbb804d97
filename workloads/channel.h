// JSON messages, a line each, between a load's process and its parent.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "workloads/layout.h"

namespace stalltrace::workloads {

class Channel {
 public:
  explicit Channel(File socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int fd() const { return socket_.get(); }
  // False once the other side is gone.
  [[nodiscard]] bool open() const { return open_; }

  // Blocks while the socket is full. A send to a side that is gone does nothing.
  void send(const nlohmann::json& message);
  // The next message; none if the other side is gone or nothing comes within `timeout_ms` (-1: no
  // limit). A signal ends the wait as well.
  std::optional<nlohmann::json> receive(int timeout_ms);

 private:
  std::optional<nlohmann::json> take_line();

  File socket_;
  std::string buffer_;
  size_t searched_ = 0;
  bool open_ = true;
};

}  // namespace stalltrace::workloads
