// The stages of `penstock data prepare`.
#include "penstock/data/prepare/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <utility>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/data/corpus/protocols.h"
#include "penstock/data/corpus/token_file_format.h"
#include "penstock/data/corpus/token_file_writer.h"
#include "penstock/data/prepare/assign_splits.h"
#include "penstock/data/prepare/corpus_target.h"
#include "penstock/data/prepare/dedup.h"
#include "penstock/data/prepare/divide_documents.h"
#include "penstock/data/prepare/gather_text.h"
#include "penstock/data/prepare/most_bytes.h"
#include "penstock/data/prepare/prepare_notes.h"
#include "penstock/data/prepare/read_inputs.h"
#include "penstock/data/prepare/text_spool.h"
#include "penstock/data/stage_progress.h"
#include "penstock/data/tokenizers/from_spec.h"

namespace penstock {
namespace {

namespace files = std::filesystem;

/// Text that is tokenized before its memory is released.
constexpr std::int64_t kReleasedBytes = 64 << 20;

TokenizerTraits traits_of(const PrepareOptions& options) {
  if (options.given) return {.ends_documents = options.given->end_of_document() >= 0};
  return tokenizer_traits(options.tokenizer);
}

/// The options in effect: a protocol's options replace the defaults.
PrepareOptions with_protocol(PrepareOptions options) {
  if (!options.protocol.empty()) {
    const Protocol& chosen = protocol(options.protocol);
    PENSTOCK_CHECK(!options.given, "protocol ", options.protocol, " says which tokenizer it takes");
    options.tokenizer = chosen.tokenizer;
    options.split = chosen.split.empty() ? "1,0,0" : chosen.split;
    options.end_of_document = false;
  }
  if (!traits_of(options).ends_documents) options.end_of_document = false;
  return options;
}

class Preparation {
 public:
  Preparation(const PrepareOptions& options, const std::function<void(std::string_view)>& progress)
      : options_(with_protocol(options)),
        traits_(traits_of(options_)),
        plan_(parse_split_plan(options_.split)),
        progress_(progress) {
    PENSTOCK_CHECK(
        !plan_.exact || traits_.bytes, "the split ", options_.split,
        " may cut within a character, which takes a tokenizer of bytes; use contiguous:");
    PENSTOCK_CHECK(options.protocol.empty() || !options.system,
                   "a protocol says how a data set is prepared; options.system has none");
    PENSTOCK_CHECK(options.system || !options.inputs.empty(),
                   "nothing to prepare: name files or folders, or use options.system");
    PENSTOCK_CHECK(options.system || !options.more,
                   "options.more adds to options.system; give both");
    PENSTOCK_CHECK(options.more || options.packages.empty(),
                   "options.packages says where options.more finds its text; give both");
    PENSTOCK_CHECK(!options.system || options.inputs.empty(),
                   "options.system gathers its own text and takes no inputs beside it");
    PENSTOCK_CHECK(options.shard_tokens >= 0, "options.shard_tokens = ", options.shard_tokens,
                   " is below 0");
    PENSTOCK_CHECK(options.most_bytes >= 0, "options.most_bytes = ", options.most_bytes,
                   " must be a number of bytes, or 0 for all of the text");
    target_ = corpus_target(options_.out);
    result_.path = options_.out;
  }

  PrepareResult run() {
    read();
    if (!options_.protocol.empty() && protocol(options_.protocol).split.empty())
      assign_splits_by_name(documents_, result_.notes);
    if (options_.dedup.value_or(options_.system)) remove_duplicates();
    if (options_.system) limit();
    if (options_.most_bytes > 0)
      std::ranges::move(keep_most_bytes(documents_, options_.most_bytes, options_.seed),
                        std::back_inserter(result_.notes));
    PENSTOCK_CHECK(!documents_.empty(), "the inputs hold no text");
    divide();
    if (result_.deduplicated) measure_overlap();
    encode();
    write();
    return std::move(result_);
  }

 private:
  /// The nearest folder to the corpus that is there, for what does not fit into memory.
  files::path spool_folder() const {
    files::path folder = parent_directory(target_);
    while (!files::exists(folder)) folder = parent_directory(folder);
    return folder;
  }

  void read() {
    texts_.emplace(spool_folder());
    if (options_.system) return gather();
    ReadOptions read = options_.read;
    read.folder = spool_folder();
    documents_ = read_inputs(options_.inputs, read, *texts_, progress_);
  }

  void gather() {
    GatheredText text = gather_text({.seed = options_.seed,
                                     .root = options_.system_root,
                                     .more = options_.more,
                                     .packages = options_.packages},
                                    [this](std::string_view line) { progress_.say(line); });
    for (Document& document : text.documents)
      documents_.push_back(spooled(std::move(document), *texts_));
    result_.packages = std::move(text.packages);
    result_.notes = std::move(text.notes);
    found_ = domain_bytes(documents_);
  }

  void remove_duplicates() {
    progress_.say("removing near-duplicate paragraphs");
    const DedupResult removed = remove_near_duplicates(
        documents_,
        [&](double share) { progress_.say_share("removing near-duplicate paragraphs", share); },
        [&](const std::string& text) { return DocumentText::view_of(texts_->keep(text)); });
    texts_->release();
    result_.deduplicated = true;
    result_.paragraphs = removed.paragraphs;
    result_.removed_paragraphs = removed.removed;
    result_.removed_bytes = removed.removed_bytes;
    result_.removed_documents = removed.removed_documents;
  }

  void limit() {
    const auto unique = domain_bytes(documents_);
    if (options_.more)
      for (const auto& [domain, bytes] : found_)
        result_.gathered.push_back(
            {domain, bytes, unique.contains(domain) ? unique.at(domain) : 0});
    std::ranges::move(limit_domains(documents_, found_, options_.more),
                      std::back_inserter(result_.notes));
  }

  void divide() {
    DividedDocuments divided =
        divide_documents(documents_, {.plan = plan_,
                                      .seed = options_.seed,
                                      .lines = traits_.lines,
                                      .end_of_document = options_.end_of_document,
                                      .joined = options_.read.separator.empty()});
    for (std::string& domain : divided.domains)
      result_.domains.push_back({.name = std::move(domain)});
    domain_of_ = std::move(divided.domain_of);
    pieces_ = std::move(divided.pieces);
    std::ranges::move(divided.notes, std::back_inserter(result_.notes));
  }

  std::string_view text_of(const Piece& piece) const {
    return piece_text(documents_[piece.document], piece);
  }

  std::vector<std::string_view> texts_of(Split split) const {
    std::vector<std::string_view> texts;
    for (const auto& piece : pieces_)
      if (piece.split == split) texts.push_back(text_of(piece));
    return texts;
  }

  /// Measures the overlap on the texts that are written, independently of the removal of
  /// near-duplicates.
  void measure_overlap() {
    progress_.say("measuring the overlap of training and validation");
    result_.validation_overlap =
        paragraph_overlap(texts_of(Split::kTrain), texts_of(Split::kValidation));
  }

  /// The texts that the vocabulary is made from.
  std::vector<std::string_view> vocabulary_texts() const {
    // Held-out text is not used, unless published figures use a vocabulary of all splits.
    auto texts = texts_of(Split::kTrain);
    if (!traits_.all_splits) return texts;
    for (const Split split : {Split::kValidation, Split::kTest})
      for (const auto text : texts_of(split)) texts.push_back(text);
    return texts;
  }

  /// Tokenizes the pieces, and releases their texts.
  void encode() {
    tokenizer_ = options_.given;
    if (!tokenizer_) {
      if (options_.tokenizer != "bytes")
        progress_.say(fmt::format("making tokenizer {}", options_.tokenizer));
      tokenizer_ = make_tokenizer(options_.tokenizer, vocabulary_texts(), options_.end_of_document);
    }
    result_.protocol = options_.protocol;
    result_.tokenizer = tokenizer_->spec();
    result_.vocab_size = tokenizer_->vocab_size();
    texts_->release();
    tokens_.emplace(spool_folder(), static_cast<std::uint32_t>(result_.vocab_size));
    const auto token_bytes = tokenizer_->token_bytes();
    progress_.say("tokenizing");
    std::int64_t total = 0, done = 0, released = 0;
    for (const auto& piece : pieces_) total += piece.end - piece.begin;
    for (const auto& piece : pieces_) {
      encode(piece, token_bytes);
      done += piece.end - piece.begin;
      progress_.say_share("tokenizing", static_cast<double>(done) / static_cast<double>(total));
      if (done - released < kReleasedBytes) continue;
      texts_->release();
      released = done;
    }
    documents_.clear();
    texts_.reset();
  }

  void encode(const Piece& piece, std::span<const std::int32_t> token_bytes) {
    const Document& document = documents_[piece.document];
    std::vector<TokenId> ids;
    try {
      tokenizer_->encode(text_of(piece), ids);
    } catch (const Error& error) {
      fail(document.source, ": ", error.what());
    }
    if (ids.empty()) return;  // the piece has only newlines, which are left out
    DocumentRecord record{
        .begin = tokens_->tokens(), .domain = domain_of_[piece.document], .split = piece.split};
    // The bytes that the tokens stand for, which bits per byte divides by. They are fewer than the
    // text's bytes if the tokenizer leaves something out.
    for (const TokenId id : ids)
      record.bytes += static_cast<std::uint64_t>(token_bytes[static_cast<std::size_t>(id)]);
    if (options_.end_of_document && piece.end == document_length(document, true))
      ids.push_back(tokenizer_->end_of_document());
    record.tokens = ids.size();
    tokens_->add(ids);
    tables_.documents.push_back(record);
    auto& count = result_.domains[record.domain].counts[static_cast<std::size_t>(record.split)];
    ++count.documents;
    count.tokens += static_cast<std::int64_t>(record.tokens);
    count.bytes += static_cast<std::int64_t>(record.bytes);
  }

  void write() {
    const auto shards = options_.shard_tokens == 0
                            ? 0
                            : tokens_->tokens() / static_cast<std::uint64_t>(options_.shard_tokens);
    PENSTOCK_CHECK(shards < token_file::kMostShards,
                   "options.shard_tokens = ", options_.shard_tokens, ": ", tokens_->tokens(),
                   " tokens would take more than ", token_file::kMostShards,
                   " files; make it larger");
    if (options_.before_writing) options_.before_writing();
    progress_.say(fmt::format("writing {}", options_.out));
    for (const auto& domain : result_.domains) tables_.domains.push_back(domain.name);
    auto& fs = real_file_system();
    create_directories(fs, parent_directory(target_));
    AtomicDirectory directory(fs, target_);
    const auto tokens = directory.create(kTokensFile);
    result_.content_hash = fmt::format(
        "{:016x}", write_token_file(
                       *tokens, tables_, *tokens_,
                       {.tokens = static_cast<std::uint64_t>(options_.shard_tokens),
                        .token_file = kTokensFile,
                        .open = [&](const std::string& name) { return directory.create(name); }}));
    tokens->close();
    for (const auto& [name, content] : tokenizer_->files()) directory.write(name, content);
    directory.write(kManifestFile, to_json(result_) + "\n");
    const bool replaces = files::exists(target_ / kManifestFile);
    directory.commit();
    if (replaces)
      result_.notes.push_back(
          fmt::format("the corpus that was at {} is replaced; a run that was trained on other "
                      "content than this cannot be resumed",
                      options_.out));
    std::array<std::int64_t, 3> by_split{};
    for (const auto& domain : result_.domains)
      for (std::size_t s = 0; s < by_split.size(); ++s) by_split[s] += domain.counts[s].tokens;
    std::ranges::move(empty_split_notes(plan_.shares, by_split), std::back_inserter(result_.notes));
  }

  const PrepareOptions options_;
  const TokenizerTraits traits_;
  SplitPlan plan_;
  StageProgress progress_;
  files::path target_;
  std::optional<TextSpool> texts_;
  std::vector<Document> documents_;            // their texts are in texts_
  std::map<std::string, std::int64_t> found_;  // bytes of gathered text before removals, by domain
  std::vector<std::uint32_t> domain_of_;       // by document
  std::vector<Piece> pieces_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<TokenSpool> tokens_;
  TokenFileTables tables_;
  PrepareResult result_;
};

}  // namespace

PrepareResult prepare_corpus(const PrepareOptions& options,
                             const std::function<void(std::string_view)>& progress) {
  return Preparation(options, progress).run();
}

}  // namespace penstock
