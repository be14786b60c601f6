// Makes a corpus directory from text files: reads them, removes duplicates, divides, tokenizes and
// writes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/corpus/corpus.h"
#include "penstock/data/corpus/documents.h"
#include "penstock/data/packages/package_use.h"

namespace penstock {

struct PrepareOptions {
  std::vector<DataInput> inputs;
  /// Take the machine's own text instead of inputs (system_corpus.h).
  bool system = false;
  /// With `system`, also take the text of Debian's manuals, dictionaries and sources
  /// (gather_text.h), from .deb files in the folder `packages`, or downloaded through apt if that
  /// is empty.
  bool more = false;
  std::string packages = {};
  /// The machine's own text is searched below this folder.
  std::string system_root = "/";
  ReadOptions read;
  std::string tokenizer = "bytes";         ///< the kind of tokenizer to make from the text
  std::shared_ptr<const Tokenizer> given;  ///< an existing tokenizer to use instead
  /// A name of protocols.h, which sets `tokenizer`, `split` and `end_of_document`. If the protocol
  /// takes splits from files' names, it also sets the splits of inputs that have none.
  std::string protocol = {};
  /// For documents without a given split; see assign_splits.h.
  std::string split = "0.9,0.05,0.05";
  std::uint64_t seed = 0;
  /// Remove near-duplicate paragraphs before the split. Default: only for the system corpus.
  std::optional<bool> dedup = {};
  /// End each document with the tokenizer's end-of-document id, if it has one.
  bool end_of_document = true;
  /// The most bytes of text to take, in whole documents chosen by the seed; domains keep their
  /// proportions (most_bytes.h). 0: all.
  std::int64_t most_bytes = 0;
  /// The most tokens in a shard (docs/formats.md); 0: one file for all tokens.
  std::int64_t shard_tokens = 0;
  std::string out;
  /// Called once everything is computed, before the first byte of the corpus is written.
  std::function<void()> before_writing = {};
};

struct PrepareResult {
  std::string path, tokenizer, protocol, content_hash;
  std::int64_t vocab_size = 0;
  struct Domain {
    std::string name;
    std::array<TextCount, kSplits> counts;
  };
  std::vector<Domain> domains;
  bool deduplicated = false;
  std::int64_t paragraphs = 0, removed_paragraphs = 0, removed_bytes = 0, removed_documents = 0;
  /// Share of validation paragraphs that occur in training; computed only if `deduplicated`.
  double validation_overlap = 0;
  /// With options.more: the text taken from each package, and each domain's bytes before and after
  /// near-duplicates were removed.
  std::vector<PackageUse> packages;
  struct Gathered {
    std::string domain;
    std::int64_t read_bytes = 0, unique_bytes = 0;
  };
  std::vector<Gathered> gathered;
  /// Notes for the user: dropped domains, and domains that were cut although the split was by
  /// documents.
  std::vector<std::string> notes;
};

/// Makes the corpus at options.out, where it appears only when it is complete. Replaces an earlier
/// corpus there; anything else there is an error. The same inputs and options give the same bytes.
/// `progress` receives a line at the beginning of each stage and now and then during it. Throws
/// Error for unreadable, empty or non-UTF-8 input and impossible options.
PrepareResult prepare_corpus(const PrepareOptions& options,
                             const std::function<void(std::string_view)>& progress = {});

/// The result as a JSON object, for corpus.json and --json.
std::string to_json(const PrepareResult& result);

}  // namespace penstock
