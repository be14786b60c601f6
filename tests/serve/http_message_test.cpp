// HTTP requests as text: accepted requests, and the status of each refusal. A request that arrives
// byte by byte gives the same result as one that arrives at once.
#include "penstock/serve/http_message.h"

#include <gtest/gtest.h>

namespace penstock::serve {
namespace {

constexpr std::string_view kHost = "Host: a\r\n";

/// Reads a request, `step` bytes at a time.
RequestReader read(std::string_view text, const HeadLimits& limits = {}, std::int64_t most = 100,
                   std::size_t step = 1000) {
  RequestReader out(limits, most);
  std::string received;
  for (std::size_t at = 0; !out.over() && at < text.size(); at += step) {
    received += text.substr(at, step);
    received.erase(0, out.take(received));
  }
  return out;
}

RequestHead parse(const std::string& line, const std::string& headers = "") {
  return read(line + "\r\n" + std::string(kHost) + headers + "\r\n").head();
}

template <class Do>
int status_of(Do work) {
  try {
    work();
  } catch (const RequestError& error) {
    EXPECT_STRNE(error.what(), "");
    return error.status();
  }
  return 200;
}

TEST(HttpMessage, AHeadIsReadToItsParts) {
  const RequestHead head =
      parse("POST /v1/completions?x=1 HTTP/1.1",
            "content-LENGTH: 12\r\nAuthorization:\t Bearer a b \r\nExpect: 100-Continue\r\n");
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.path, "/v1/completions");
  EXPECT_EQ(head.content_length, 12);
  EXPECT_EQ(head.header("authorization"), "Bearer a b");
  EXPECT_TRUE(head.keeps_alive && head.expects_continue && !head.chunked && !head.http_1_0);
  EXPECT_EQ(parse("GET http://a:80/health HTTP/1.1").path, "/health");
  EXPECT_EQ(parse("GET http://a HTTP/1.1").path, "/");
  EXPECT_EQ(parse("OPTIONS * HTTP/1.1").path, "*");
}

TEST(HttpMessage, TheHostOfATargetReplacesTheHeader) {
  EXPECT_EQ(parse("GET / HTTP/1.1").header("host"), "a");
  EXPECT_EQ(parse("GET http://evil:80/health HTTP/1.1").header("host"), "evil:80");
  EXPECT_EQ(parse("GET http://evil HTTP/1.1").header("host"), "evil");
}

TEST(HttpMessage, ConnectionsGoOnAsTheVersionSays) {
  EXPECT_FALSE(parse("GET / HTTP/1.1", "Connection: x, Close\r\n").keeps_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.0").keeps_alive);
  EXPECT_TRUE(parse("GET / HTTP/1.0", "connection: Keep-Alive\r\n").keeps_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.0", "Expect: 100-continue\r\n").expects_continue);
}

TEST(HttpMessage, WhatIsNoHttpIsRefused) {
  for (const char* line : {"GET", "GET /", "GET  HTTP/1.1", " GET / HTTP/1.1", "G@T / HTTP/1.1",
                           "GET a HTTP/1.1", "GET /\x01 HTTP/1.1"})
    EXPECT_EQ(status_of([&] { parse(line); }), 400) << line;
  for (const char* line : {"GET / HTTP/", "GET / FTP/1.1", "GET / http/1.1", "GET / HTTP/11",
                           "GET / HTTP/1.1 ", "GET / HTTP/1.1\r", "GET /a b HTTP/1.1"})
    EXPECT_EQ(status_of([&] { parse(line); }), 400) << line;
  for (const char* line : {"GET / HTTP/2.0", "GET / HTTP/1.2", "GET / HTTP/0.9"})
    EXPECT_EQ(status_of([&] { parse(line); }), 505) << line;
  for (const char* header : {"NoColon\r\n", "A : b\r\n", ": x\r\n", "A: b\x01\r\n", "Host: b\r\n"})
    EXPECT_EQ(status_of([&] { parse("GET / HTTP/1.1", header); }), 400) << header;
  EXPECT_EQ(status_of([&] { read("GET / HTTP/1.1\r\n\r\n"); }), 400);
  EXPECT_EQ(status_of([&] { read("GET / HTTP/1.0\r\n\r\n"); }), 200);
}

TEST(HttpMessage, EmptyLinesMayComeBeforeARequest) {
  const std::string request = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
  for (const std::string empty : {"\r\n", "\r\n\r\n", "\r\n\r\n\r\n"}) {
    const std::string text = empty + request;
    for (std::size_t step = 1; step <= text.size(); ++step) {
      const RequestReader reader = read(text, {}, 100, step);
      ASSERT_TRUE(reader.over()) << step;
      EXPECT_EQ(reader.head().path, "/health");
    }
    EXPECT_FALSE(read(empty).begun());
    EXPECT_FALSE(read(empty + "\r").begun());
    EXPECT_TRUE(read(empty + "GET / HTTP/1.1\r\n").begun());
  }
  EXPECT_EQ(status_of([&] { read("\r\r\n" + request); }), 400);
  EXPECT_EQ(status_of([&] { read(" \r\n" + request); }), 400);
  std::string many;
  for (int i = 0; i < 101; ++i) many += "\r\n";
  EXPECT_EQ(status_of([&] { read(many, {.bytes = 200}); }), 431);
}

TEST(HttpMessage, ALineThatEndsWithLfAloneIsRefusedAsSuch) {
  for (const char* text : {"GET / HTTP/1.1\nHost: a\n\n", "GET / HTTP/1.1\nHost: a\r\n\r\n",
                           "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"})
    for (const std::size_t step : {1, 1000}) try {
        read(text, {}, 100, step);
        ADD_FAILURE() << "the request was accepted: " << text;
      } catch (const RequestError& error) {
        EXPECT_EQ(error.status(), 400) << text;
        EXPECT_EQ(error.message(), "the first line must end with CR LF, not with LF alone");
      }
}

TEST(HttpMessage, LengthsThatCanBeReadInTwoWaysAreRefused) {
  for (const char* headers :
       {"Content-Length: x\r\n", "Content-Length: -1\r\n", "Content-Length: +1\r\n",
        "Content-Length: 1.0\r\n", "Content-Length: 0x10\r\n", "Content-Length: \r\n",
        "Content-Length: 5, 5\r\n", "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"})
    EXPECT_EQ(status_of([&] { parse("POST / HTTP/1.1", headers); }), 400) << headers;
  EXPECT_EQ(status_of([&] { parse("POST / HTTP/1.1", "Transfer-Encoding: gzip\r\n"); }), 501);
  EXPECT_TRUE(parse("POST / HTTP/1.1", "Transfer-Encoding: Chunked\r\n").chunked);
}

TEST(HttpMessage, ABodyComesWithoutContentCoding) {
  const auto status = [](const char* coding) {
    return status_of(
        [&] { parse("POST / HTTP/1.1", std::string("Content-Encoding: ") + coding + "\r\n"); });
  };
  EXPECT_EQ(status("gzip"), 415);
  EXPECT_EQ(status("identity, br"), 415);
  EXPECT_EQ(status("Identity"), 200);
  EXPECT_EQ(status(""), 200);
}

TEST(HttpMessage, HeadsHaveTheirLimits) {
  const HeadLimits limits{.bytes = 200, .line = 50, .headers = 3};
  const auto status = [&](const std::string& text) {
    return status_of([&] { read(text, limits); });
  };
  EXPECT_FALSE(read("GET / HTTP/1.1\r\nHost: a\r\n", limits).has_head());
  EXPECT_EQ(status(std::string(51, 'a')), 414);
  EXPECT_EQ(status("GET /" + std::string(60, 'a') + " HTTP/1.1\r\n"), 414);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nA: " + std::string(200, 'a')), 431);
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 5000; ++i) many += "a: b\r\n";
  // Some sizes cut the head within a line that is still allowed.
  for (const std::size_t step : {1000, 14480, 16384, 65536})
    EXPECT_EQ(status_of([&] { read(many, {}, 100, step); }), 431) << step;
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: a\r\nB: 1\r\nC: 1\r\nD: 1\r\n\r\n"), 431);
}

const std::string kChunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST(HttpMessage, ChunksComeInAnyPieces) {
  const std::string text =
      kChunked + "4;x=y\r\nabcd\r\n00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    RequestReader reader = read(text, {}, 100, step);
    ASSERT_TRUE(reader.over()) << step;
    EXPECT_EQ(reader.body(), "abcd0123456789") << step;
  }
  // An end without a chunk before it (read in pieces it fails an assertion of Beast's, if
  // assertions are on), an end with a trailer, and data that look like the end.
  for (const std::string body : {"0\r\n\r\n", "0\r\nA: b\r\n\r\n", "3\r\n0\r\n\r\n0\r\n\r\n"})
    for (std::size_t step = 1; step <= body.size(); ++step)
      EXPECT_TRUE(read(kChunked + body, {}, 100, step).over()) << step << body;
  RequestReader reader({}, 100);
  EXPECT_EQ(reader.take(text + "GET"), text.size());  // the rest belongs to the next request
}

TEST(HttpMessage, WrongChunksAreRefused) {
  const auto status = [](const std::string& text) {
    return status_of([&] { read(kChunked + text, {.bytes = 200}); });
  };
  for (const char* text :
       {"x\r\n", "\r\n", "-1\r\n", "4\nabcd\r\n0\r\n\r\n", "4\r\nabcde\r\n0\r\n\r\n",
        "0x4\r\nabcd\r\n0\r\n\r\n", "ffffffffffffffffffff\r\n"})
    EXPECT_EQ(status(text), 400) << text;
  EXPECT_EQ(status("65\r\n"), 413);
  EXPECT_EQ(status("fffffffffffffff\r\n"), 413);
  EXPECT_EQ(status("64\r\n" + std::string(100, 'a') + "\r\n1\r\n"), 413);
  EXPECT_EQ(status(std::string(300, '1')), 400);
  EXPECT_EQ(status("1;" + std::string(300, 'x')), 400);
}

TEST(HttpMessage, AnswersBeginWithTheirStatus) {
  EXPECT_EQ(response_head(405, {{"Allow", "GET"}}),
            "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET\r\n\r\n");
}

}  // namespace
}  // namespace penstock::serve
