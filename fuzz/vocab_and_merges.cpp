// Fuzzes a vocab.json, a merges.txt, a tokenizer_config.json and a text, with NUL bytes between
// them.
#include "fuzz/input.h"
#include "penstock/data/tokenizers/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const auto parts = fuzz::parts(data, size, std::string_view("\0", 1), 4);
  fuzz::expect_answer([&] {
    const auto tokenizer = read_vocab_and_merges(
        {{"vocab.json", parts[0]}, {"merges.txt", parts[1]}, {"tokenizer_config.json", parts[2]}},
        "vocab.json");
    fuzz::use(*tokenizer, parts[3]);
  });
  return 0;
}
