#include "penstock/data/corpus/protocols.h"

#include <algorithm>
#include <array>
#include <optional>

#include "penstock/base/error.h"
#include "penstock/base/joined.h"

namespace penstock {
namespace {

// The last 5 % are for test and the 5 % before them for validation, cut at bytes: 90, 5 and 5 MB of
// the 10^8 bytes (github.com/salesforce/awd-lstm-lm, data/enwik8/prep_enwik8.py).
constexpr std::string_view kNinetyFiveFive = "bytes:0.9,0.05,0.05";

constexpr std::array<Protocol, 4> kProtocols = {{
    {"enwik8", "bytes, the first 90 % for training, 5 % each for validation and test", "bytes",
     kNinetyFiveFive},
    {"enwik8-no-newlines",
     "enwik8 without newlines, as published code reads it: vocabulary of 204 bytes, sorted by "
     "frequency",
     "byte-vocabulary-no-newlines", kNinetyFiveFive},
    {"text8", "letters and the space (vocabulary 27), split as enwik8", "byte-vocabulary",
     kNinetyFiveFive},
    {"wikitext", "words with <eos> for each line, vocabulary of the training text; splits by name",
     "words", ""},
}};

std::optional<Split> split_of_name(std::string_view source) {
  const auto slash = source.find_last_of("/:");
  const std::string_view name = slash == source.npos ? source : source.substr(slash + 1);
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (has("train")) return Split::kTrain;
  if (has("valid") || has("dev")) return Split::kValidation;
  if (has("test")) return Split::kTest;
  return std::nullopt;
}

}  // namespace

std::span<const Protocol> protocols() { return kProtocols; }

const Protocol& protocol(std::string_view name) {
  const auto found = std::ranges::find(kProtocols, name, &Protocol::name);
  if (found != kProtocols.end()) return *found;
  fail("no protocol '", name, "'; there are ", joined(kProtocols, ", ", &Protocol::name));
}

void assign_splits_by_name(std::vector<Document>& documents, std::vector<std::string>& notes) {
  std::erase_if(documents, [&](Document& document) {
    if (!document.split) document.split = split_of_name(document.source);
    if (document.split) return false;
    notes.push_back(
        concat("left out: ", document.source, " (its name has neither train, valid nor test)"));
    return true;
  });
  const bool train = std::ranges::any_of(
      documents, [](const Document& document) { return document.split == Split::kTrain; });
  PENSTOCK_CHECK(train,
                 "no file is for training: name a folder or archive that holds, for example, "
                 "train.txt, valid.txt and test.txt, or say of which split each is "
                 "(`penstock data prepare --validation FILE --test FILE`)");
}

}  // namespace penstock
