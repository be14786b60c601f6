// What `penstock init` writes and says: the texts of the files and the summary, with a short
// measurement of this machine. Asks nothing and writes nothing.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace penstock {

struct StartingData {
  std::string corpus;        ///< its folder
  std::string source = {};   ///< what `penstock data prepare` makes it of; "" for a corpus
  bool exists = true;        ///< whether the corpus is there
  std::int64_t vocab = 256;  ///< of bytes where it is not there yet
  std::int64_t tokens = 0;   ///< of its training split; 0: not known
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

/// Trains a few steps on random tokens, to know this machine's speed; takes some seconds.
StartingFiles starting_files(const StartingQuestion& question);

}  // namespace penstock
