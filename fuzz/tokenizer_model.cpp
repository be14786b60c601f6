// Fuzzes SentencePiece's tokenizer.model. A text to tokenize follows after four bytes 0xff. The
// library itself is not instrumented: the harness looks for crashes, and for errors in our use of
// the library's results. The library makes several allocations for each byte of a text, so texts
// are kept short.
#include "fuzz/input.h"
#include "penstock/data/tokenizers/sentencepiece_functions.h"

extern "C" penstock::SentencePieceFunctions penstock_sentencepiece();

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const auto parts = fuzz::parts(data, size, "\xff\xff\xff\xff", 2);
  fuzz::expect_answer([&] {
    fuzz::use(*penstock_sentencepiece().load(parts[0], "tokenizer.model", {}),
              parts[1].substr(0, 128));
  });
  return 0;
}
