// Clients over sockets, including slow, wrong and leaving clients, with a responder that echoes or
// waits.
#include "penstock/serve/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <stdexcept>
#include <thread>

namespace penstock::serve {
namespace {

using namespace std::chrono_literals;

/// Echoes each request. /wait, /stream and /parts last until `go_on` is false or the client has
/// left.
class Echo : public Responder {
 public:
  std::atomic<bool> go_on = true;
  std::atomic<int> under_way = 0, refusals = 0;

  Reply answer(const ApiRequest& request) override {
    if (request.path == "/wait" || request.path == "/stream")
      return {.type = "text/event-stream",
              .stream = std::make_unique<Waiting>(*this),
              .as_it_comes = request.path == "/stream"};
    if (request.path == "/parts")
      return {.stream = std::make_unique<Waiting>(*this), .as_it_comes = true};
    if (request.path == "/fails") return {.stream = std::make_unique<Failing>()};
    return {.body = request.method + " " + request.path + " " + request.body};
  }
  void refused(int) override { ++refusals; }
  bool settles(int count) {
    for (int i = 0; i < 300 && under_way != count; ++i) std::this_thread::sleep_for(10ms);
    return under_way == count;
  }

 private:
  struct Failing : ReplyStream {
    bool next(std::string&, std::chrono::milliseconds) override {
      throw std::runtime_error("a failure of this answer alone");
    }
  };
  struct Waiting : ReplyStream {
    explicit Waiting(Echo& echo) : echo(echo) { ++echo.under_way; }
    ~Waiting() override { --echo.under_way; }
    bool next(std::string& out, std::chrono::milliseconds) override {
      std::this_thread::sleep_for(5ms);
      if (echo.go_on) return true;
      out += "done";
      return false;
    }
    int status() const override { return 504; }
    Echo& echo;
  };
};

HttpOptions quick() {
  return {.port = 0,
          .connections = 4,
          .limits = {.body_bytes = 1000, .request_time = 300ms, .idle_time = 2000ms}};
}

struct Client {
  int socket = ::socket(AF_INET, SOCK_STREAM, 0);

  explicit Client(const HttpServer& server) {
    sockaddr_in to{.sin_family = AF_INET,
                   .sin_port = htons(static_cast<std::uint16_t>(server.port()))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  ~Client() { leave(); }
  void leave() {
    if (socket >= 0) ::close(socket);
    socket = -1;
  }
  void send(std::string_view text) const {
    EXPECT_EQ(::send(socket, text.data(), text.size(), MSG_NOSIGNAL), std::ssize(text));
  }
  void end_of_sending() const { ::shutdown(socket, SHUT_WR); }
  /// Everything up to the server's close, or up to the text `until`.
  std::string read(std::string_view until = "\x01none") const {
    std::string out;
    char bytes[4096];
    for (ssize_t n;
         out.find(until) == std::string::npos && (n = ::recv(socket, bytes, sizeof(bytes), 0)) > 0;)
      out.append(bytes, static_cast<std::size_t>(n));
    return out;
  }
};

std::string get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n"; }

struct HttpServerTest : ::testing::Test {
  Echo echo;
  HttpServer server{echo, quick()};

  std::string answer(std::string_view request) {
    const Client client(server);
    client.send(request);
    return client.read("}");
  }
};

TEST_F(HttpServerTest, AStreamInHttp10EndsWithItsConnection) {
  const Client client(server);
  client.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  client.end_of_sending();  // so a comment comes before the answer's end
  EXPECT_TRUE(echo.settles(1));
  std::this_thread::sleep_for(300ms);
  echo.go_on = false;
  const std::string all = client.read();
  for (const char* header : {"Content-Length", "Transfer-Encoding"})
    EXPECT_EQ(all.find(header), std::string::npos) << all;
  EXPECT_NE(all.find("Connection: close\r\n"), std::string::npos) << all;
  EXPECT_TRUE(all.ends_with("\r\n\r\n:\n\ndone")) << all;
}

TEST_F(HttpServerTest, AnAnswerThatIsWaitedForComesWholeInHttp10) {
  echo.go_on = false;
  const Client client(server);
  client.send("GET /wait HTTP/1.0\r\n\r\n");
  const std::string all = client.read();
  EXPECT_NE(all.find("Content-Length: 4\r\n"), std::string::npos) << all;
  EXPECT_TRUE(all.ends_with("\r\n\r\ndone")) << all;
}

TEST_F(HttpServerTest, AConnectionTakesManyRequests) {
  const Client client(server);
  client.send(
      get("/a") + "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nxyz" +
      "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nuv\r\n0\r\n\r\n"
      "HEAD /d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string all = client.read();
  for (const char* part : {"\r\n\r\nGET /a ", "\r\n\r\nPOST /b xyz", "\r\n\r\nPOST /c uv",
                           "Content-Length: 7\r\n\r\n"})
    EXPECT_NE(all.find(part), std::string::npos) << part << all;
  EXPECT_TRUE(all.ends_with("\r\n\r\n"));  // HEAD has no body
  EXPECT_NE(all.find("Connection: close"), std::string::npos);
}

TEST_F(HttpServerTest, AnEmptyLineAfterABodyBeginsNoRequest) {
  const std::string post = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nxyz";
  for (const bool apart : {false, true}) {
    const Client client(server);
    client.send(apart ? post : post + "\r\n");
    EXPECT_NE(client.read("xyz").find("200 OK"), std::string::npos) << apart;
    if (apart) client.send("\r\n");
    std::this_thread::sleep_for(600ms);  // twice the time that a request may take
    client.send(get("/c"));
    EXPECT_NE(client.read("GET /c").find("200 OK"), std::string::npos) << apart;
  }
  EXPECT_EQ(echo.refusals, 0);
}

TEST(HttpServer, EmptyLinesDoNotKeepAConnectionOpen) {
  Echo echo;
  HttpOptions options = quick();
  options.limits.idle_time = 200ms;
  HttpServer server(echo, options);
  const Client client(server);
  bool open = true;
  for (int i = 0; i < 3000 && open; ++i, std::this_thread::sleep_for(10ms))
    open = ::send(client.socket, "\r\n", 2, MSG_NOSIGNAL) == 2;
  EXPECT_FALSE(open);
}

TEST_F(HttpServerTest, WhatIsTooLongIsRefusedBeforeItIsRead) {
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\n";
  EXPECT_TRUE(answer(post + "Content-Length: 1000000000\r\n\r\n").starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(
      answer(post + "Transfer-Encoding: chunked\r\n\r\nfffff\r\n").starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(answer(post + "A: " + std::string(20000, 'a')).starts_with("HTTP/1.1 431 "));
  EXPECT_TRUE(answer("GET /" + std::string(10000, 'a')).starts_with("HTTP/1.1 414 "));
  EXPECT_TRUE(
      answer(post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_EQ(echo.refusals, 5);
}

TEST_F(HttpServerTest, ARefusalIsSeenBehindABodyThatWasSent) {
  const Client client(server);
  std::string body(300'000, 'a');
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n");
  ::send(client.socket, body.data(), body.size(), MSG_NOSIGNAL);
  const std::string seen = client.read();
  EXPECT_TRUE(seen.starts_with("HTTP/1.1 413 ")) << seen;
  EXPECT_TRUE(seen.ends_with("}")) << seen;
}

TEST_F(HttpServerTest, ABodyIsWaitedForOnlyWhereItIsTaken) {
  const Client client(server);
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  EXPECT_NE(client.read("POST / ok").find("POST / ok"), std::string::npos);
}

TEST_F(HttpServerTest, ASlowRequestIsCutOffHoweverOftenAByteComes) {
  const Client client(server);
  const std::string request =
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n" + std::string(900, 'a');
  std::atomic<std::size_t> sent = 0;
  std::thread sending([&] {
    for (const char c : request) {
      if (::send(client.socket, &c, 1, MSG_NOSIGNAL) != 1) break;
      ++sent;
      std::this_thread::sleep_for(5ms);  // all of it would take five seconds
    }
  });
  const std::string seen = client.read("}");
  EXPECT_TRUE(seen.starts_with("HTTP/1.1 408 ")) << seen;
  EXPECT_LT(sent, request.size());
  ::shutdown(client.socket, SHUT_RDWR);
  sending.join();
}

TEST_F(HttpServerTest, AClientThatOnlyStopsSendingGetsItsAnswer) {
  for (const std::string path : {"/wait", "/stream", "/parts"}) {
    echo.go_on = true;
    const Client client(server);
    client.send(get(path));
    client.end_of_sending();
    EXPECT_TRUE(echo.settles(1));
    std::this_thread::sleep_for(300ms);  // the server has checked the connection by now
    EXPECT_EQ(echo.under_way, 1) << path;
    echo.go_on = false;
    const std::string seen = client.read("done");
    EXPECT_NE(seen.find("done"), std::string::npos) << path;
    // Only events have a comment between them, by which the server tells that the client is there.
    EXPECT_EQ(seen.find(":\n\n") != std::string::npos, path == "/stream") << seen;
  }
}

TEST_F(HttpServerTest, AClientThatLeavesIsNoticedWhileItsAnswerIsWaitedFor) {
  for (const char* path : {"/wait", "/stream"}) {
    Client client(server);
    client.send(get(path));
    EXPECT_TRUE(echo.settles(1)) << path;
    client.leave();
    EXPECT_TRUE(echo.settles(0)) << path;
  }
}

TEST_F(HttpServerTest, AnAnswerThatIsWaitedForHasItsStatus) {
  echo.go_on = false;
  const Client client(server);
  client.send(get("/wait"));
  const std::string seen = client.read("done");
  EXPECT_TRUE(seen.starts_with("HTTP/1.1 504 ")) << seen;
  EXPECT_NE(seen.find("Content-Length: 4\r\n"), std::string::npos) << seen;
}

TEST_F(HttpServerTest, AnAnswerThatFailsEndsItsConnectionAlone) {
  for (int i = 0; i < 6; ++i) {  // more often than there are connections
    const Client client(server);
    client.send(get("/fails"));
    EXPECT_EQ(client.read(), "");
  }
  const Client other(server);
  other.send(get("/a"));
  EXPECT_NE(other.read("/a").find("200 OK"), std::string::npos);
}

TEST_F(HttpServerTest, MoreClientsThanThreadsAreServedInTurn) {
  std::vector<std::thread> clients;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 20; ++i)
    clients.emplace_back([&] {
      const Client client(server);
      client.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
      answered += client.read().ends_with("GET /a ");
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, 20);
}

TEST(HttpServer, AConnectionWithoutARequestGivesWayToAClientThatHasOne) {
  Echo echo;
  HttpOptions options = quick();
  options.limits.idle_time = 1h;
  options.slots.grace = 100ms;
  HttpServer server(echo, options);
  const Client busy(server);
  busy.send(get("/wait"));
  EXPECT_TRUE(echo.settles(1));
  std::list<Client> idle;  // three beside `busy`, then three that replace them
  for (int i = 0; i < 6; ++i) {
    const Client& client = idle.emplace_back(server);
    client.send(get("/once"));
    EXPECT_NE(client.read("/once").find("200 OK"), std::string::npos) << i;
  }
  echo.go_on = false;
  EXPECT_NE(busy.read("done").find("done"), std::string::npos);  // the busy connection stayed open
}

TEST(HttpServer, AConnectionThatWasJustUsedIsNotEndedForAnother) {
  Echo echo;
  HttpOptions options = quick();
  options.connections = 1;
  options.slots = {.grace = 1h, .patience = 0ms};
  options.limits.idle_time = 1h;
  HttpServer server(echo, options);
  const Client first(server);
  first.send(get("/a"));
  EXPECT_NE(first.read("/a").find("200 OK"), std::string::npos);
  const Client second(server);
  second.send(get("/b"));
  const std::string refusal = second.read();
  for (const char* part : {"HTTP/1.1 503 ", "Retry-After: 1\r\n", "Connection: close\r\n",
                           "all connections are taken"})
    EXPECT_NE(refusal.find(part), std::string::npos) << part << refusal;
  EXPECT_EQ(echo.refusals, 1);
  first.send(get("/c"));
  EXPECT_NE(first.read("/c").find("200 OK"), std::string::npos);
}

TEST(HttpServer, AClientBeyondThoseThatAreBusyIsToldToComeAgain) {
  Echo echo;
  HttpOptions options = quick();
  options.connections = 2;
  options.slots.patience = 50ms;
  HttpServer server(echo, options);
  const Client one(server), other(server);
  for (const Client* busy : {&one, &other}) busy->send(get("/wait"));
  EXPECT_TRUE(echo.settles(2));
  const Client third(server);
  third.send(get("/a"));
  EXPECT_NE(third.read().find("HTTP/1.1 503 "), std::string::npos);
  echo.go_on = false;
  for (const Client* busy : {&one, &other})
    EXPECT_NE(busy->read("done").find("done"), std::string::npos);
}

/// While an object of this class lives, creating a thread fails: the default stack is too large for
/// the address space.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    EXPECT_EQ(::pthread_getattr_default_np(&usual_), 0);
    pthread_attr_t huge;
    EXPECT_EQ(::pthread_attr_init(&huge), 0);
    EXPECT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 47), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&huge), 0);
    ::pthread_attr_destroy(&huge);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;
  ~NoMoreThreads() {
    EXPECT_EQ(::pthread_setattr_default_np(&usual_), 0);
    ::pthread_attr_destroy(&usual_);
  }

 private:
  pthread_attr_t usual_;
};

TEST(HttpServer, OneThreadTakesNewcomersWhereThereAreNoMoreThreads) {
  Echo echo;
  HttpOptions options = quick();
  options.slots.patience = 50ms;
  HttpServer server(echo, options);
  const Client busy(server);
  busy.send(get("/wait"));
  EXPECT_TRUE(echo.settles(1));  // the second thread waits for a client
  {
    const NoMoreThreads none;
    for (int i = 0; i < 2; ++i) {
      const Client newcomer(server);
      newcomer.send(get("/a"));
      EXPECT_NE(newcomer.read("}").find("HTTP/1.1 503 "), std::string::npos);
    }
  }
  const Client third(server);
  third.send(get("/b"));
  EXPECT_NE(third.read("/b").find("200 OK"), std::string::npos)
      << "the third request was not answered though threads can start again";
  echo.go_on = false;
  EXPECT_NE(busy.read("done").find("done"), std::string::npos);
}

TEST_F(HttpServerTest, StoppingSendsWhatIsUnderWayAndEndsWhatIsIdle) {
  const Client idle(server), waiting(server);
  waiting.send(get("/wait"));
  EXPECT_TRUE(echo.settles(1));
  std::thread stopping([&] { server.stop(); });
  EXPECT_EQ(idle.read(), "");
  echo.go_on = false;
  EXPECT_NE(waiting.read("done").find("done"), std::string::npos);
  stopping.join();
}

TEST(HttpServer, APortIsTakenOnce) {
  Echo echo;
  const HttpServer server(echo, quick());
  EXPECT_ANY_THROW(HttpServer(echo, {.port = server.port()}));
  EXPECT_ANY_THROW(HttpServer(echo, {.host = "no such host.invalid", .port = 0}));
}

}  // namespace
}  // namespace penstock::serve
