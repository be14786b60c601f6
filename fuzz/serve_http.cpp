// Fuzzes the server's reading of bytes from a connection: the head, and a body in chunks. The
// server may refuse bytes only with an error status. The sizes of the pieces must not change the
// result, except for the time at which a bad request is refused: Beast waits for the end of a bad
// head, and subtracts a chunk's size from the limit again each time it reads its bad line again.
#include <cstdint>

#include "penstock/serve/http_message.h"

namespace {

using namespace penstock;

/// Reads the bytes `step` at a time. Returns the method, path and body; or "refused" or "more".
std::string read_in_steps(std::string_view bytes, std::size_t step) {
  constexpr std::int64_t kMost = 1000;
  serve::RequestReader reader({}, kMost);
  std::string received;
  try {
    for (std::size_t at = 0; !reader.over() && at < bytes.size(); at += step) {
      received += bytes.substr(at, step);
      received.erase(0, reader.take(received));
    }
  } catch (const serve::RequestError& error) {
    if (error.status() < 400 || error.status() > 505) __builtin_trap();
    return "refused";
  }
  if (!reader.over()) return "more";
  const serve::RequestHead& head = reader.head();
  if (head.method.empty() || std::ssize(reader.body()) > kMost) __builtin_trap();
  return head.method + " " + head.path + " " + reader.body();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = read_in_steps(bytes, size + 1), pieces = read_in_steps(bytes, 1);
  const bool later =
      (whole == "refused" && pieces == "more") || (whole == "more" && pieces == "refused");
  if (pieces != whole && !later && size < 8000) __builtin_trap();
  return 0;
}
