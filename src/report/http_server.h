#pragma once
// HTTP server on the loopback interface, for the user who started the program.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace tg {

struct HttpReply {
  std::string type = {};  // content type; empty: nothing at that path
  std::string body = {};
};

// Serves 127.0.0.1 alone. A request must have the token (128 random bits) and a loopback Host
// header, which prevents DNS rebinding by other pages in the user's browser. Replies are not cached
// and cannot be framed.
class HttpServer {
 public:
  // Returns the reply to a GET of `path`, such as "/". `since`: the number of that name in the
  // query, or 0.
  using Handler = std::function<HttpReply(const std::string& path, std::uint64_t since)>;

  // `port`: 0 for a free port. Throws Error(unavailable) if the port is in use.
  HttpServer(int port, Handler handler);
  ~HttpServer();

  // Returns "http://127.0.0.1:PORT/?token=TOKEN".
  std::string address() const;
  // Serves until SIGINT or SIGTERM.
  void run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tg
