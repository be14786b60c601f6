// Makes the texts of the files that `penstock init` writes, and its summary, from a short
// measurement of this machine. It asks nothing and writes nothing.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace penstock {

struct StartingData {
  std::string corpus;          ///< its folder
  std::string source = {};     ///< the argument of `penstock data prepare`; "" for a corpus
  std::string tokenizer = {};  ///< the model whose tokenizer it has; "": a token is a byte
  bool exists = true;          ///< whether the corpus is there
  std::int64_t vocab = 256;    ///< vocabulary size; 256 if the corpus does not exist yet
  std::int64_t tokens = 0;  ///< tokens of the training split, which may not exist yet; 0: unknown
};

enum class StartingPurpose { train, upcycle, compare };
constexpr std::array<std::string_view, 3> words(StartingPurpose) {
  return {"train", "upcycle", "compare"};
}

struct StartingQuestion {
  StartingPurpose purpose = StartingPurpose::train;
  std::string method, model, out;
  double seconds = 0;
  StartingData data;
};

struct StartingFiles {
  std::map<std::string, std::string> texts;  ///< by path
  std::string summary;
};

/// Makes the files. Trains a few steps on random tokens to measure this machine's speed, which
/// takes some seconds. Throws Error for too little text, and for a model or method that cannot be
/// upcycled.
StartingFiles starting_files(const StartingQuestion& question);

}  // namespace penstock
