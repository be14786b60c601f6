#include "penstock/serve/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>

#include "penstock/base/ascii_lower.h"
#include "penstock/base/parse_number.h"

namespace penstock::serve {
namespace {

namespace http = boost::beast::http;

constexpr std::string_view kLineEnd = "\r\n";
/// The end of a body in chunks.
constexpr std::string_view kLastChunk = "0\r\n\r\n";

[[noreturn]] void malformed(const std::string& what) { throw RequestError(400, what); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Whether the text has the form of a version: "HTTP/1.1".
bool is_version(std::string_view text) {
  return text.size() == 8 && text.starts_with("HTTP/") && is_digit(text[5]) && text[6] == '.' &&
         is_digit(text[7]);
}

/// Cuts the host from a target in the form of requests to proxies ("http://host/path").
/// @return the host; "" for a target of another form
std::string_view cut_host(std::string_view& target) {
  constexpr std::string_view kScheme = "http://";
  if (!target.starts_with(kScheme)) return {};
  target.remove_prefix(kScheme.size());
  const std::string_view host = target.substr(0, target.find('/'));
  target.remove_prefix(host.size());
  if (target.empty()) target = "/";
  return host;
}

/// The path of a request's target, without a query.
std::string path_of(std::string_view target) {
  const bool printable = std::ranges::all_of(target, [](char c) { return c > ' ' && c < 127; });
  if (!printable || !(target.starts_with('/') || target == "*"))
    malformed("the target must be a path");
  return std::string(target.substr(0, target.find('?')));
}

/// The number of headers of that name.
std::ptrdiff_t times(const RequestHead& head, std::string_view name) {
  return std::ranges::count_if(head.headers,
                               [&](const auto& one) { return same_word(one.first, name); });
}

/// Reads the headers that describe the body and the connection.
void take_framing(RequestHead& out) {
  const std::ptrdiff_t hosts = times(out, "Host"), lengths = times(out, "Content-Length"),
                       codings = times(out, "Transfer-Encoding");
  if (hosts > 1 || (hosts == 0 && !out.http_1_0)) malformed("there must be one Host header");
  if (lengths > 1) malformed("Content-Length comes twice");
  if (lengths > 0 && codings > 0) malformed("Content-Length and Transfer-Encoding come together");
  if (lengths > 0) {
    const std::string text = out.header("Content-Length");
    const auto length = parse_number<std::int64_t>(text);
    if (!length || text.front() == '-') malformed("Content-Length must be a whole number");
    out.content_length = *length;
  }
  if (codings > 0) {
    if (codings > 1 || !same_word(out.header("Transfer-Encoding"), "chunked"))
      throw RequestError(501, "the only transfer coding is chunked");
    out.chunked = true;
  }
  const std::string coding = out.header("Content-Encoding");
  if (!coding.empty() && !same_word(coding, "identity"))
    throw RequestError(415, "the body must come without a Content-Encoding, not as " + coding);
  out.expects_continue = !out.http_1_0 && same_word(out.header("Expect"), "100-continue");
}

}  // namespace

bool same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return ascii_lower(x) == ascii_lower(y); });
}

std::string RequestHead::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (same_word(key, name)) return value;
  return {};
}

struct RequestReader::Parser : http::request_parser<http::string_body> {};

RequestReader::RequestReader(const HeadLimits& limits, std::int64_t body_bytes)
    : parser_(std::make_unique<Parser>()), limits_(limits), body_bytes_(body_bytes) {
  parser_->header_limit(static_cast<std::uint32_t>(limits.bytes));
  parser_->body_limit(static_cast<std::uint64_t>(body_bytes));
}
RequestReader::~RequestReader() = default;
RequestReader::RequestReader(RequestReader&&) noexcept = default;

bool RequestReader::over() const { return parser_->is_done(); }
std::string& RequestReader::body() { return parser_->get().body(); }

std::size_t RequestReader::take(std::string_view received) {
  std::size_t taken = 0;
  while (!begun_ && received.substr(taken).starts_with(kLineEnd)) taken += kLineEnd.size();
  head_bytes_ += taken;
  while (!parser_->is_done() && taken < received.size()) {
    const std::string_view rest = received.substr(taken);
    if (!begun_ && !check_first_line(rest)) break;
    // Beast asserts that it never sees the last chunk's line with one byte more. Data that begin
    // like that line can wait without loss: at least seven bytes follow.
    if (head_ && head_->chunked && rest.size() < kLastChunk.size() &&
        rest.starts_with(kLastChunk.substr(0, 3)))
      break;
    boost::system::error_code error;
    const std::size_t used = parser_->put(boost::asio::buffer(rest.data(), rest.size()), error);
    taken += used;
    begun_ |= used > 0;
    if (!head_) head_bytes_ += used;
    if (error == http::error::need_more) break;
    if (error) refuse(error);
    if (!head_ && parser_->is_header_done()) head_ = parsed_head();
  }
  // The remaining bytes are part of a line of the head or of a line between chunks. If the head
  // reaches its limit between two lines, Beast waits for more bytes, so the limit is checked here.
  const std::size_t left = received.size() - taken;
  if (!head_ && head_bytes_ + left > limits_.bytes) refuse(http::error::header_limit);
  if (!parser_->is_done() && left > limits_.bytes) malformed("a line of the request is too long");
  return taken;
}

bool RequestReader::check_first_line(std::string_view received) const {
  const std::size_t end = std::min(received.find('\n'), received.size());
  if (end > limits_.line)
    throw RequestError(414, fmt::format("the first line has more than {} bytes", limits_.line));
  if (end == received.size()) return false;
  std::string_view line = received.substr(0, end);
  // Beast would refuse these lines as lines of another version.
  if (!line.ends_with('\r')) malformed("the first line must end with CR LF, not with LF alone");
  line.remove_suffix(1);
  if (std::ranges::count(line, ' ') != 2 || !is_version(line.substr(line.rfind(' ') + 1)))
    malformed("the first line must be a method, a path and a version, as in 'GET / HTTP/1.1'");
  return true;
}

void RequestReader::refuse(const boost::system::error_code& error) const {
  if (error == http::error::header_limit)
    throw RequestError(431, fmt::format("the headers have more than {} bytes", limits_.bytes));
  if (error == http::error::body_limit)
    throw RequestError(413, fmt::format("the body has more than {} bytes", body_bytes_));
  if (error == http::error::bad_version) throw RequestError(505, "the server speaks HTTP/1.1");
  malformed("the request is not HTTP: " + error.message());
}

RequestHead RequestReader::parsed_head() const {
  const auto& request = parser_->get();
  std::string_view target(request.target().data(), request.target().size());
  const std::string_view host = cut_host(target);
  RequestHead out{.method = std::string(request.method_string()),
                  .path = path_of(target),
                  .http_1_0 = request.version() == 10,
                  .keeps_alive = request.keep_alive()};
  for (const auto& field : request) {
    if (out.headers.size() == limits_.headers)
      throw RequestError(431, fmt::format("there are more than {} headers", limits_.headers));
    out.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  take_framing(out);
  // Such a host replaces the header (RFC 9112, 3.2.2).
  for (auto& [name, value] : out.headers)
    if (!host.empty() && same_word(name, "Host")) value = host;
  return out;
}

std::string response_head(int status, const Headers& headers) {
  std::string out =
      fmt::format("HTTP/1.1 {} {}\r\n", status,
                  std::string(http::obsolete_reason(static_cast<http::status>(status))));
  for (const auto& [name, value] : headers) out += fmt::format("{}: {}\r\n", name, value);
  return out + "\r\n";
}

}  // namespace penstock::serve
