#include "penstock/train/run_text.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "penstock/base/checksum.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"

namespace penstock {
namespace {

Corpus open_one(const std::string& path, const std::string& key, bool verify) {
  PENSTOCK_CHECK(!path.empty(), key,
                 " is not set; name a folder that `penstock data prepare` made");
  PENSTOCK_CHECK(std::filesystem::exists(path), key, " = ", path,
                 ": there is no such folder; make the corpus with `penstock data prepare`, or, "
                 "where it was moved, name its place as ",
                 key, " (a run goes on with it: content counts, not the place)");
  Corpus corpus = Corpus::open(path);
  if (verify) corpus.file().verify();  // a flipped token would train silently
  return corpus;
}

}  // namespace

RunText::RunText(Corpus corpus) : RunText(corpus, {{.corpus = corpus, .weight = 1}}) {}

RunText::RunText(Corpus measured, std::vector<WeightedCorpus> training)
    : measured(std::move(measured)), training(std::move(training)) {
  for (const auto& [corpus, weight] : this->training)
    PENSTOCK_CHECK(
        corpus.tokenizer().files() == this->measured.tokenizer().files(), "the corpora '",
        this->measured.path(), "' and '", corpus.path(), "' have different tokenizers (",
        this->measured.tokenizer_spec(), " and ", corpus.tokenizer_spec(),
        "); prepare the second with the tokenizer of the first, ", this->measured.path());
}

std::string RunText::content_hash() const {
  if (training.size() == 1 && training.front().corpus.content_hash() == measured.content_hash())
    return measured.content_hash();
  std::string text = measured.content_hash();
  for (const auto& [corpus, weight] : training)
    text += fmt::format(" {} {}", corpus.content_hash(), weight);
  Xxh64 hash;
  hash.update(bytes_of(text));
  return fmt::format("{:016x}", hash.value());
}

RunText open_text(const DataConfig& data, bool verify) {
  Corpus measured = open_one(data.corpus, "data.corpus", verify);
  if (data.corpora.empty()) return measured;
  std::vector<WeightedCorpus> training;
  for (const CorpusShare& share : data.corpora)
    training.push_back({.corpus = share.path == data.corpus
                                      ? measured
                                      : open_one(share.path, "data.corpora.path", verify),
                        .weight = share.weight});
  return {std::move(measured), std::move(training)};
}

}  // namespace penstock
