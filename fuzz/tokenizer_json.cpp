// Fuzzes a tokenizer.json. A text to tokenize follows after a NUL byte.
#include "penstock/data/tokenizers/tokenizer_json.h"

#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const auto parts = fuzz::parts(data, size, std::string_view("\0", 1), 2);
  fuzz::expect_answer([&] {
    fuzz::use(*read_tokenizer_json({{"tokenizer.json", parts[0]}}, "tokenizer.json"), parts[1]);
  });
  return 0;
}
