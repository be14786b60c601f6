// Fuzzes a tokenizer.bin of llama2.c. A text to tokenize follows after four bytes 0xff.
#include "penstock/data/tokenizers/tokenizer_bin.h"

#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const auto parts = fuzz::parts(data, size, "\xff\xff\xff\xff", 2);
  fuzz::expect_answer([&] { fuzz::use(*read_tokenizer_bin(parts[0], "tokenizer.bin"), parts[1]); });
  return 0;
}
