// From text files to a corpus directory: read, remove duplicates, divide, tokenize, write.
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
  /// Gather the machine's own text instead of inputs (system_corpus.h).
  bool system = false;
  /// Beside it, take the text of Debian's manuals, dictionaries and sources (gather_text.h), from
  /// .deb files in the folder `packages`, or, where that is empty, downloaded through apt.
  bool more = false;
  std::string packages = {};
  /// The machine's own text is looked for below this folder.
  std::string system_root = "/";
  ReadOptions read;
  std::string tokenizer = "bytes";         ///< the kind of tokenizer to make from the text
  std::shared_ptr<const Tokenizer> given;  ///< a finished tokenizer to use instead
  /// A name of protocols.h, which sets `tokenizer`, `split` and `end_of_document` and, where its
  /// splits go by name, those of inputs that have none.
  std::string protocol = {};
  /// For documents without a given split; see assign_splits.h.
  std::string split = "0.9,0.05,0.05";
  std::uint64_t seed = 0;
  /// Remove near-duplicate paragraphs before the split; if not said, for the system corpus only.
  std::optional<bool> dedup = {};
  /// End each document with the tokenizer's end-of-document id, if it has one.
  bool end_of_document = true;
  /// The most bytes of text to take, in whole documents drawn by the seed, each domain in its
  /// proportion (most_bytes.h); 0: all.
  std::int64_t most_bytes = 0;
  /// The most tokens in a shard's file (docs/formats.md); 0: one file for all tokens.
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
  /// Share of validation paragraphs that occur in training; only where duplicates were removed.
  double validation_overlap = 0;
  /// With options.more: what each package gave, and each domain's bytes as they were read and
  /// without near-duplicates.
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

/// Makes the corpus at options.out: complete or absent. An earlier corpus there is replaced;
/// anything else there is an error. The same inputs and options give the same bytes. `progress`
/// gets a line at the beginning of each stage and now and then within it. Throws Error for
/// unreadable, empty or non-UTF-8 input and impossible options.
PrepareResult prepare_corpus(const PrepareOptions& options,
                             const std::function<void(std::string_view)>& progress = {});

/// The result as a JSON object: corpus.json, and what --json prints.
std::string to_json(const PrepareResult& result);

}  // namespace penstock
