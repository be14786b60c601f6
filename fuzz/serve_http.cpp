// Bytes from a connection, as the server reads them: the head and a body in chunks. What is refused
// is the client's error, and how the bytes are cut into pieces changes nothing.
#include <cstdint>

#include "penstock/serve/http_message.h"

namespace {

using namespace penstock;

/// What the bytes are, read `step` at a time: the head's size, and the body or the status.
std::string read_in_steps(std::string_view bytes, std::size_t step) {
  std::string received, out;
  try {
    std::optional<std::size_t> size;
    std::size_t at = 0;
    while (!(size = serve::head_size(received)) && at < bytes.size()) {
      received += bytes.substr(at, step);
      at += step;
    }
    if (!size) return "more";
    const serve::RequestHead head = serve::parse_head(std::string_view(received).substr(0, *size));
    if (head.method.empty() || head.content_length < 0) __builtin_trap();
    received.erase(0, *size);
    out = std::to_string(*size);
    if (!head.chunked) return out;
    serve::ChunkedBody body(1000);
    while (!body.over()) {
      received.erase(0, body.take(received));
      if (body.body().size() > 1000) __builtin_trap();
      if (body.over() || at >= bytes.size()) break;
      received += bytes.substr(at, step);
      at += step;
    }
    return out + " " + body.body();
  } catch (const serve::RequestError& error) {
    if (error.status() < 400 || error.status() > 505) __builtin_trap();
    return out + " refused";
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = read_in_steps(bytes, size + 1);
  if (read_in_steps(bytes, 1) != whole && size < 8000) __builtin_trap();
  return 0;
}
