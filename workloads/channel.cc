#include "workloads/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace stalltrace::workloads {

void Channel::send(const nlohmann::json& message) {
  // Paths need not be UTF-8, JSON must.
  std::string line = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  std::string_view rest = line;
  while (open_ && !rest.empty()) {
    ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      open_ = false;
      return;
    }
    rest.remove_prefix(static_cast<size_t>(sent));
  }
}

std::optional<nlohmann::json> Channel::take_line() {
  size_t end = buffer_.find('\n', searched_);
  if (end == std::string::npos) {
    searched_ = buffer_.size();
    return std::nullopt;
  }
  nlohmann::json message = nlohmann::json::parse(buffer_.substr(0, end));
  buffer_.erase(0, end + 1);
  searched_ = 0;
  return message;
}

std::optional<nlohmann::json> Channel::receive(int timeout_ms) {
  std::array<char, 65536> chunk;
  while (true) {
    if (auto message = take_line()) return message;
    if (!open_) return std::nullopt;
    pollfd wait{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, timeout_ms) <= 0) return std::nullopt;
    ssize_t received = recv(socket_.get(), chunk.data(), chunk.size(), 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) {
      open_ = false;
    } else {
      buffer_.append(chunk.data(), static_cast<size_t>(received));
    }
  }
}

}  // namespace stalltrace::workloads
