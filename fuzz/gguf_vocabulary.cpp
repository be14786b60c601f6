// Fuzzes the vocabulary of a GGUF file. A text to tokenize follows after four bytes 0xff.
#include "penstock/models/formats/gguf_vocabulary.h"

#include "fuzz/input.h"
#include "fuzz/memory_file.h"
#include "penstock/data/tokenizers/from_vocabulary.h"
#include "penstock/data/vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const auto parts = fuzz::parts(data, size, "\xff\xff\xff\xff", 2);
  fuzz::expect_answer([&] {
    const fuzz::MemoryFile file(parts[0]);
    const Vocabulary vocabulary = read_gguf_vocabulary(GgufFile(file.path()));
    // The sanitizers do not support SentencePiece's own library, which is loaded at run time.
    if (vocabulary.kind == Vocabulary::Kind::kSentencePieceUnigram) return;
    fuzz::use(*make_tokenizer(vocabulary), parts[1]);
  });
  return 0;
}
