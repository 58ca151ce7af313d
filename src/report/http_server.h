#pragma once
// HTTP on this machine alone, for the user who started the program.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace tg {

struct HttpReply {
  std::string type = {};  // of the content; empty: there is nothing at that path
  std::string body = {};
};

// Serves 127.0.0.1 alone. A request must know the token (128 random bits) and be addressed to the
// loopback: another page in the user's browser could give a name of its own this address. Replies
// are not cached, nor shown in another page's frame.
class HttpServer {
 public:
  // The reply to a GET of this path, such as "/", with this number `since` in its query, else 0.
  using Handler = std::function<HttpReply(const std::string& path, std::uint64_t since)>;

  // Port 0: a free one. Errors: unavailable (the port is in use).
  HttpServer(int port, Handler handler);
  ~HttpServer();

  // "http://127.0.0.1:PORT/?token=TOKEN"
  std::string address() const;
  // Until SIGINT or SIGTERM.
  void run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tg
