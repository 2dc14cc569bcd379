#include "heddle/tests/data/loopback_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace heddle::test {

LoopbackServer::LoopbackServer(Handler handler)
    : handler_(std::move(handler)), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (socket_ < 0 || ::bind(socket_, generic, length) != 0 || ::listen(socket_, 8) != 0 ||
      ::getsockname(socket_, generic, &length) != 0)
    throw std::runtime_error("loopback server: no port to be had");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

LoopbackServer::~LoopbackServer() {
  ::shutdown(socket_, SHUT_RDWR);  // wakes accept
  thread_.join();
  ::close(socket_);
}

std::string LoopbackServer::url(const std::string& path) const {
  return "http://127.0.0.1:" + std::to_string(port_) + "/" + path;
}

std::vector<std::string> LoopbackServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void LoopbackServer::serve() {
  while (true) {
    const int connection = ::accept(socket_, nullptr, nullptr);
    if (connection < 0) return;
    answer(connection);
    ::close(connection);
  }
}

void LoopbackServer::answer(int connection) {
  std::string request;
  char buffer[1024];
  while (request.find("\r\n\r\n") == std::string::npos) {
    const ssize_t n = ::recv(connection, buffer, sizeof buffer, 0);
    if (n <= 0) return;
    request.append(buffer, static_cast<size_t>(n));
  }
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  const std::string text = handler_(request);
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
  ::shutdown(connection, SHUT_WR);
  while (::recv(connection, buffer, sizeof buffer, 0) > 0) {
  }
}

size_t range_of(const std::string& request) {
  const std::string key = "Range: bytes=";
  const size_t found = request.find(key);
  return found == std::string::npos ? 0 : std::stoul(request.substr(found + key.size()));
}

std::string response(const std::string& status, const std::string& body, size_t length) {
  return "HTTP/1.1 " + status +
         "\r\nConnection: close\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n" + body;
}

}  // namespace heddle::test
