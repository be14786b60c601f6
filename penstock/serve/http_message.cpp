#include "penstock/serve/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace penstock::serve {
namespace {

constexpr std::size_t kMostOfChunkLine = 256;
constexpr std::int64_t kMostOfTrailers = 8192;

[[noreturn]] void malformed(const std::string& what) { throw RequestError(400, what); }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

/// Characters of methods and of names of headers.
bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Whether a list of words with commas between has that one.
bool lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (same_word(without_blanks(list.substr(0, comma)), word)) return true;
    list.remove_prefix(std::min(list.size(), comma + 1));
  }
  return false;
}

template <class Number>
bool whole(std::string_view text, Number& out, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && end == text.data() + text.size() && text.front() != '-';
}

void take_request_line(std::string_view line, RequestHead& out) {
  const std::size_t first = line.find(' '), second = line.rfind(' ');
  if (first == std::string_view::npos || first == second)
    malformed("the first line must be 'METHOD /path HTTP/1.1'");
  out.method = line.substr(0, first);
  if (!is_token(out.method)) malformed("the method is no word");
  const std::string_view version = line.substr(second + 1);
  std::string_view target = line.substr(first + 1, second - first - 1);
  if (!version.starts_with("HTTP/")) malformed("the first line does not end in HTTP/1.1");
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    throw RequestError(505, "the server speaks HTTP/1.1");
  out.http_1_0 = version == "HTTP/1.0";
  if (target.starts_with("http://")) {  // as proxies are asked
    target.remove_prefix(7);
    target.remove_prefix(std::min(target.find('/'), target.size()));
    if (target.empty()) target = "/";
  }
  const bool printable = std::ranges::all_of(target, [](char c) { return c > ' ' && c < 127; });
  if (!printable || !(target.starts_with('/') || target == "*"))
    malformed("the target must be a path");
  out.path = target.substr(0, target.find('?'));
}

void take_header(std::string_view line, RequestHead& out) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    malformed("a header must be 'Name: value' on one line");
  const std::string_view value = without_blanks(line.substr(colon + 1));
  const bool clean = std::ranges::none_of(
      value, [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 127; });
  if (!clean) malformed("a header's value has a control character");
  out.headers.emplace_back(line.substr(0, colon), value);
}

/// How many headers have that name.
std::ptrdiff_t times(const RequestHead& head, std::string_view name) {
  return std::ranges::count_if(head.headers,
                               [&](const auto& one) { return same_word(one.first, name); });
}

/// What the headers say of the body and of the connection.
void take_framing(RequestHead& out) {
  const std::ptrdiff_t hosts = times(out, "Host"), lengths = times(out, "Content-Length"),
                       codings = times(out, "Transfer-Encoding");
  if (hosts > 1 || (hosts == 0 && !out.http_1_0)) malformed("there must be one Host header");
  if (lengths > 1) malformed("Content-Length comes twice");
  if (lengths > 0 && codings > 0) malformed("Content-Length and Transfer-Encoding come together");
  if (lengths > 0) {
    const std::string text = out.header("Content-Length");
    if (text.empty() || !whole(text, out.content_length))
      malformed("Content-Length must be a whole number");
  }
  if (codings > 0) {
    if (codings > 1 || !same_word(out.header("Transfer-Encoding"), "chunked"))
      throw RequestError(501, "the only transfer coding is chunked");
    out.chunked = true;
  }
  const std::string connection = out.header("Connection");
  out.keeps_alive = out.http_1_0 ? lists(connection, "keep-alive") : !lists(connection, "close");
  out.expects_continue = !out.http_1_0 && same_word(out.header("Expect"), "100-continue");
}

const char* phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return status < 500 ? "Refused" : "Internal Server Error";
  }
}

}  // namespace

bool same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::string RequestHead::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (same_word(key, name)) return value;
  return {};
}

std::optional<std::size_t> head_size(std::string_view received, const HeadLimits& limits) {
  bool first = true;
  for (std::size_t at = 0; at < received.size();) {
    const std::size_t end = received.find('\n', at);
    const std::size_t reach = std::min(end, received.size());
    if (first && reach > limits.line)
      throw RequestError(414, fmt::format("the first line has more than {} bytes", limits.line));
    if (reach > limits.bytes)
      throw RequestError(431, fmt::format("the headers have more than {} bytes", limits.bytes));
    if (end == std::string_view::npos) return std::nullopt;
    if (end == at || received[end - 1] != '\r') malformed("a line does not end in CR LF");
    if (end == at + 1) return end + 1;
    at = end + 1;
    first = false;
  }
  return std::nullopt;
}

RequestHead parse_head(std::string_view head, const HeadLimits& limits) {
  RequestHead out;
  bool first = true;
  for (std::size_t end; (end = head.find("\r\n")) != std::string_view::npos && end > 0;
       head.remove_prefix(end + 2), first = false) {
    const std::string_view line = head.substr(0, end);
    if (out.headers.size() == limits.headers)
      throw RequestError(431, fmt::format("there are more than {} headers", limits.headers));
    if (first)
      take_request_line(line, out);
    else
      take_header(line, out);
  }
  if (first) malformed("the request is empty");
  take_framing(out);
  return out;
}

void ChunkedBody::begin_chunk(std::string_view line) {
  const std::string_view size = without_blanks(line.substr(0, line.find(';')));
  if (size.empty() || size.size() > 15 || !whole(size, left_, 16))
    malformed("the size of a chunk is no number");
  if (left_ > most_ - std::ssize(body_))
    throw RequestError(413, fmt::format("the body has more than {} bytes", most_));
  state_ = left_ > 0 ? State::data : State::trailer;
}

std::size_t ChunkedBody::take(std::string_view received) {
  std::size_t taken = 0;
  while (state_ != State::over && taken < received.size()) {
    const std::string_view rest = received.substr(taken);
    if (state_ == State::data) {
      const std::size_t count = std::min(rest.size(), static_cast<std::size_t>(left_));
      body_ += rest.substr(0, count);
      taken += count;
      left_ -= static_cast<std::int64_t>(count);
      if (left_ == 0) state_ = State::data_end;
      continue;
    }
    const std::size_t end = rest.find('\n');
    if (std::min(end, rest.size()) > kMostOfChunkLine)
      malformed("a line of the chunks is too long");
    if (end == std::string_view::npos) break;
    if (end == 0 || rest[end - 1] != '\r') malformed("a line of the chunks does not end in CR LF");
    const std::string_view line = rest.substr(0, end - 1);
    taken += end + 1;
    if (state_ == State::size) {
      begin_chunk(line);
    } else if (state_ == State::data_end) {
      if (!line.empty()) malformed("a chunk is longer than it says");
      state_ = State::size;
    } else if (line.empty()) {
      state_ = State::over;
    } else if ((trailers_ += std::ssize(line)) > kMostOfTrailers) {
      throw RequestError(431, "the headers behind the body are too long");
    }
  }
  return taken;
}

std::string response_head(int status, const Headers& headers) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", status, phrase(status));
  for (const auto& [name, value] : headers) out += fmt::format("{}: {}\r\n", name, value);
  return out + "\r\n";
}

}  // namespace penstock::serve
