// Fuzzes the body of a request to the server, read as each kind of request. An accepted request
// must keep to the limits; a refused one must give status 400.
#include <cstdint>
#include <limits>

#include "penstock/serve/request.h"

namespace {

using namespace penstock;

template <class Parse>
void expect_answer(Parse parse, std::string_view body) {
  try {
    parse(body);
  } catch (const serve::RequestError& error) {
    if (error.status() != 400) __builtin_trap();
    serve::error_body(error);
  }
}

void check(const serve::TextRequest& request, const serve::RequestLimits& limits) {
  const auto prompts = static_cast<std::int64_t>(request.prompts.size());
  if (request.n < 1 || request.n * std::max<std::int64_t>(1, prompts) > limits.texts)
    __builtin_trap();
  const std::int64_t least = request.echo ? 0 : 1;
  if (request.max_tokens && (*request.max_tokens < least || *request.max_tokens > limits.tokens))
    __builtin_trap();
  if (!request.adjustments.none())
    penstock::check(request.adjustments, std::int64_t{std::numeric_limits<TokenId>::max()} + 1);
  for (const std::string& stop : request.stop)
    if (stop.empty()) __builtin_trap();
  penstock::check(request.sampling);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const serve::RequestLimits limits;
  expect_answer([&](std::string_view text) { check(serve::parse_completion(text), limits); }, body);
  expect_answer([&](std::string_view text) { check(serve::parse_chat(text), limits); }, body);
  expect_answer([&](std::string_view text) { serve::parse_routing(text); }, body);
  expect_answer([&](std::string_view text) { serve::parse_tokenize(text); }, body);
  expect_answer([&](std::string_view text) { serve::parse_detokenize(text); }, body);
  return 0;
}
