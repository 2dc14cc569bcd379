#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace heddle::test {

/// An HTTP server on 127.0.0.1 that sends exactly what a test tells it to, and then closes the
/// connection: also what no decent server would send.
class LoopbackServer {
 public:
  /// Gives the whole response, header and body, to a request's header.
  using Handler = std::function<std::string(const std::string& request)>;

  explicit LoopbackServer(Handler handler);
  ~LoopbackServer();
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  std::string url(const std::string& path) const;
  std::vector<std::string> requests() const;

 private:
  void serve();
  void answer(int connection);

  Handler handler_;
  int socket_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

/// The first byte of a request's "Range: bytes=N-"; 0 where there is none.
size_t range_of(const std::string& request);

/// A response with the header lines that HTTP wants, and a Content-Length of `length`.
std::string response(const std::string& status, const std::string& body, size_t length);

}  // namespace heddle::test
