#include "report/http_server.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace tg {
namespace {

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  const auto got = ::getrandom(bytes.data(), bytes.size(), 0);
  REQUIRE(got == static_cast<ssize_t>(bytes.size()), ExitCode::unavailable,
          "the system has no random numbers ({})", std::strerror(errno));
  std::string token;
  for (const auto byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

// Compares in constant time: the duration does not depend on where the texts differ.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

// Returns whether a Host header is the loopback, with any port, since a tunnel (ssh -L) may use
// another.
bool is_loopback(std::string_view host) {
  const auto port = host.rfind(':');
  if (port != host.npos && host.find(']', port) == host.npos) host = host.substr(0, port);
  return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

// Returns a socket that listens on 127.0.0.1.
int listen_on(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;  // allows the port of a server that has just exited
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool listens =
      ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(socket, 16) == 0;
  REQUIRE(listens, ExitCode::unavailable,
          "port {} of 127.0.0.1 cannot be used ({}); choose another one, or none for a free one",
          port, std::strerror(errno));
  return socket;
}

int port_of(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

// The fields of a request's query string.
class Query {
 public:
  explicit Query(evhttp_request* request) {
    const auto* uri = evhttp_request_get_evhttp_uri(request);
    const char* text = uri == nullptr ? nullptr : evhttp_uri_get_query(uri);
    evhttp_parse_query_str(text == nullptr ? "" : text, &fields_);
  }
  ~Query() { evhttp_clear_headers(&fields_); }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  std::string_view get(const char* name) const {
    const char* value = evhttp_find_header(&fields_, name);
    return value == nullptr ? "" : value;
  }

 private:
  evkeyvalq fields_{};
};

void send(evhttp_request* request, int code, const char* reason, const HttpReply& reply) {
  auto* headers = evhttp_request_get_output_headers(request);
  const std::pair<const char*, const char*> fields[] = {
      {"Content-Type", reply.type.c_str()},
      {"Cache-Control", "no-store"},
      {"Referrer-Policy", "no-referrer"},  // the URL contains the token
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Cross-Origin-Resource-Policy", "same-origin"}};
  for (const auto& [name, value] : fields) evhttp_add_header(headers, name, value);
  auto* buffer = evbuffer_new();
  evbuffer_add(buffer, reply.body.data(), reply.body.size());
  evhttp_send_reply(request, code, reason, buffer);
  evbuffer_free(buffer);
}

void send_text(evhttp_request* request, int code, const char* reason) {
  send(request, code, reason, {"text/plain", fmt::format("{} {}\n", code, reason)});
}

}  // namespace

struct HttpServer::State {
  Handler handler;
  std::string token = random_token();
  int port = 0;
  event_base* base = nullptr;
  evhttp* http = nullptr;
  std::array<event*, 2> signals{};

  bool may_read(evhttp_request* request, const Query& query) const {
    const char* host = evhttp_find_header(evhttp_request_get_input_headers(request), "Host");
    return host != nullptr && is_loopback(host) &&
           equal_in_constant_time(query.get("token"), token);
  }

  static void answer(evhttp_request* request, void* self) {
    const auto& state = *static_cast<const State*>(self);
    const Query query(request);
    if (!state.may_read(request, query)) return send_text(request, 403, "Forbidden");
    const auto* uri = evhttp_request_get_evhttp_uri(request);
    const char* path = evhttp_uri_get_path(uri);
    const auto reply = state.handler(path == nullptr ? "" : path,
                                     parse_number<std::uint64_t>(query.get("since")).value_or(0));
    if (reply.type.empty()) return send_text(request, 404, "Not Found");
    send(request, 200, "OK", reply);
  }

  static void stop(evutil_socket_t, short, void* base) {
    event_base_loopbreak(static_cast<event_base*>(base));
  }
};

HttpServer::HttpServer(int port, Handler handler) : state_(std::make_unique<State>()) {
  state_->handler = std::move(handler);
  const int socket = listen_on(port);
  state_->port = port_of(socket);
  state_->base = event_base_new();
  state_->http = evhttp_new(state_->base);
  REQUIRE(evhttp_accept_socket(state_->http, socket) == 0, ExitCode::unavailable,
          "port {} of 127.0.0.1 cannot be listened on", state_->port);
  evhttp_set_allowed_methods(state_->http, EVHTTP_REQ_GET);
  evhttp_set_max_headers_size(state_->http, 16 << 10);
  evhttp_set_max_body_size(state_->http, 1 << 10);
  evhttp_set_timeout(state_->http, 30);  // seconds of inactivity
  evhttp_set_gencb(state_->http, State::answer, state_.get());
  constexpr std::array<int, 2> numbers = {SIGINT, SIGTERM};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    state_->signals[i] = evsignal_new(state_->base, numbers[i], State::stop, state_->base);
    event_add(state_->signals[i], nullptr);
  }
}

HttpServer::~HttpServer() {
  for (auto* signal : state_->signals) event_free(signal);
  evhttp_free(state_->http);
  event_base_free(state_->base);
}

std::string HttpServer::address() const {
  return fmt::format("http://127.0.0.1:{}/?token={}", state_->port, state_->token);
}

void HttpServer::run() {
  std::signal(SIGPIPE, SIG_IGN);  // raised if a browser has closed its connection
  event_base_dispatch(state_->base);
}

}  // namespace tg
