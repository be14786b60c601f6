// The stages of `penstock data prepare`.
#include "penstock/data/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/data/assign_splits.h"
#include "penstock/data/dedup.h"
#include "penstock/data/prepare_notes.h"
#include "penstock/data/protocols.h"
#include "penstock/data/system_corpus.h"
#include "penstock/data/text_boundary.h"
#include "penstock/data/token_file_writer.h"
#include "penstock/data/tokenizer_files.h"

namespace penstock {
namespace {

namespace files = std::filesystem;

// Of the system corpus: a smaller domain says nothing, a larger one only costs time.
constexpr std::int64_t kSmallestDomainBytes = 1 << 20, kLargestDomainBytes = 4 << 20;

TokenizerTraits traits_of(const PrepareOptions& options) {
  if (options.given) return {.ends_documents = options.given->end_of_document() >= 0};
  return tokenizer_traits(options.tokenizer);
}

/// The options as they are carried out: a protocol's in place of the defaults.
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

/// A piece as it is written.
struct EncodedPiece {
  std::vector<TokenId> ids;
  std::uint64_t bytes = 0;  // of text
  std::uint32_t domain = 0;
  Split split = Split::kTrain;
};

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
    PENSTOCK_CHECK(!options.system || options.inputs.empty(),
                   "options.system gathers its own text and takes no inputs beside it");
    check_target();
  }

  PrepareResult run() {
    read();
    if (!options_.protocol.empty() && protocol(options_.protocol).split.empty())
      assign_splits_by_name(documents_, result_.notes);
    if (options_.dedup.value_or(options_.system)) remove_duplicates();
    if (options_.system) limit_domains();
    PENSTOCK_CHECK(!documents_.empty(), "the inputs hold no text");
    divide();
    if (result_.deduplicated) measure_overlap();
    encode();
    write();
    return std::move(result_);
  }

 private:
  void say(const std::string& line) const {
    if (progress_) progress_(line);
  }

  /// Refuses to replace what is not a corpus.
  void check_target() {
    PENSTOCK_CHECK(!options_.out.empty(), "say where the corpus goes with options.out");
    // Without a trailing slash, which would leave the last component without a name.
    target_ = files::absolute(options_.out).lexically_normal();
    if (!target_.has_filename()) target_ = target_.parent_path();
    result_.path = options_.out;
    clean_leftovers_of(real_file_system(), target_);
    if (!files::exists(files::symlink_status(target_))) return;
    const bool replaceable =
        files::is_directory(target_) && !files::is_symlink(target_) &&
        (files::is_empty(target_) || (files::is_regular_file(target_ / kTokensFile) &&
                                      files::is_regular_file(target_ / kManifestFile)));
    PENSTOCK_CHECK(replaceable, "'", options_.out,
                   "' exists and is not a corpus; remove it or name another options.out");
    std::set<std::string> own = {kTokensFile, kManifestFile};
    own.insert(kTokenizerFiles.begin(), kTokenizerFiles.end());
    own.insert(kFilesBeside.begin(), kFilesBeside.end());
    for (const auto& entry : files::directory_iterator(target_))
      PENSTOCK_CHECK(own.contains(entry.path().filename().string()), "'", options_.out,
                     "' holds more than a corpus (", entry.path().filename().string(),
                     "), which replacing it would delete; name another options.out");
  }

  void read() {
    if (options_.system) {
      say("gathering this machine's text");
      documents_ = read_system_documents({.seed = options_.seed, .root = options_.system_root});
      found_ = present_domains();
      for (const auto& domain : system_domains())
        if (!found_.contains(domain))
          result_.notes.push_back(
              fmt::format("domain {} missing: this machine has no text of it", domain));
      return;
    }
    std::set<files::path> read_already;
    for (const auto& input : options_.inputs) {
      say(fmt::format("reading {}", input.path));
      PENSTOCK_CHECK(read_already.insert(files::weakly_canonical(input.path)).second, "'",
                     input.path,
                     "' is named twice: its text would stand in training and in held-out text");
      auto read = read_documents(input, options_.read);
      PENSTOCK_CHECK(!read.empty(), "'", input.path, "' is empty: it holds no text");
      documents_.insert(documents_.end(), std::make_move_iterator(read.begin()),
                        std::make_move_iterator(read.end()));
    }
  }

  std::set<std::string> present_domains() const {
    std::set<std::string> names;
    for (const auto& document : documents_) names.insert(document.domain);
    return names;
  }

  void remove_duplicates() {
    say("removing near-duplicate paragraphs");
    const DedupResult removed = remove_near_duplicates(documents_);
    result_.deduplicated = true;
    result_.paragraphs = removed.paragraphs;
    result_.removed_paragraphs = removed.removed;
    result_.removed_bytes = removed.removed_bytes;
    result_.removed_documents = removed.removed_documents;
  }

  /// Keeps the first few MB of each domain, whole documents, and drops domains that are too small.
  void limit_domains() {
    const auto left = present_domains();
    for (const auto& domain : found_)
      if (!left.contains(domain))
        result_.notes.push_back(
            fmt::format("domain {} dropped: all of its text repeats other text", domain));
    std::map<std::string, std::int64_t> bytes;
    std::erase_if(documents_, [&](const Document& document) {
      auto& sum = bytes[document.domain];
      const auto size = static_cast<std::int64_t>(document.text.size());
      if (sum + size > kLargestDomainBytes) return true;
      sum += size;
      return false;
    });
    for (const auto& [domain, sum] : bytes) {
      if (sum >= kSmallestDomainBytes) continue;
      result_.notes.push_back(fmt::format("domain {} dropped: {} bytes of text here, below {}",
                                          domain, sum, kSmallestDomainBytes));
      std::erase_if(documents_,
                    [&dropped = domain](const Document& d) { return d.domain == dropped; });
    }
    PENSTOCK_CHECK(!documents_.empty(),
                   "this machine has too little text for options.system: no domain of ",
                   kSmallestDomainBytes, " bytes; name files or folders instead");
  }

  /// What the shares of a split are taken of: bytes, and one for the end of the document.
  std::int64_t length_of(const Document& document) const {
    return std::ssize(document.text) + (options_.end_of_document ? 1 : 0);
  }

  /// The next place at or after `position` where the text may be cut.
  std::int64_t boundary(std::string_view text, std::int64_t position) const {
    if (plan_.exact) return position;
    return traits_.lines ? line_boundary(text, position) : character_boundary(text, position);
  }

  /// Chooses every document's split and lines the pieces up: train, validation, test.
  void divide() {
    std::map<std::string, std::vector<std::size_t>> by_domain;
    for (std::size_t i = 0; i < documents_.size(); ++i)
      by_domain[documents_[i].domain].push_back(i);
    for (const auto& [domain, members] : by_domain) {
      const auto index = static_cast<std::uint32_t>(result_.domains.size());
      result_.domains.push_back({.name = domain});
      std::vector<std::size_t> open;
      std::vector<const Document*> cut;
      std::vector<std::int64_t> lengths;
      for (const std::size_t i : members) {
        domain_of_.emplace(i, index);
        const std::int64_t length = length_of(documents_[i]);
        if (documents_[i].split) {
          pieces_.push_back({i, 0, length, *documents_[i].split});
        } else {
          open.push_back(i);
          cut.push_back(&documents_[i]);
          lengths.push_back(length);
        }
      }
      bool fell_back = false;
      for (Piece piece : assign_splits(lengths, plan_, options_.seed, fell_back)) {
        piece.document = open[piece.document];
        piece.begin = boundary(documents_[piece.document].text, piece.begin);
        piece.end = boundary(documents_[piece.document].text, piece.end);
        if (piece.begin < piece.end) pieces_.push_back(piece);
      }
      if (fell_back && !open.empty())
        result_.notes.push_back(cut_documents_note(domain, cut, options_.read.separator.empty()));
    }
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
      return std::tie(a.split, a.document, a.begin) < std::tie(b.split, b.document, b.begin);
    });
  }

  std::string_view text_of(const Piece& piece) const {
    const std::string_view text = documents_[piece.document].text;
    const auto begin = static_cast<std::size_t>(piece.begin);
    // The end of the document, if the piece has it, is no text.
    return text.substr(begin, static_cast<std::size_t>(piece.end) - begin);
  }

  std::vector<std::string_view> texts_of(Split split) const {
    std::vector<std::string_view> texts;
    for (const auto& piece : pieces_)
      if (piece.split == split) texts.push_back(text_of(piece));
    return texts;
  }

  /// Measured on what is written, not on what the removal believed.
  void measure_overlap() {
    say("measuring the overlap of training and validation");
    result_.validation_overlap =
        paragraph_overlap(texts_of(Split::kTrain), texts_of(Split::kValidation));
  }

  /// What the vocabulary is made from.
  std::vector<std::string_view> vocabulary_texts() const {
    // Held-out text does not shape the vocabulary, but where published figures are with one that it
    // does.
    auto texts = texts_of(Split::kTrain);
    if (!traits_.all_splits) return texts;
    for (const Split split : {Split::kValidation, Split::kTest})
      for (const auto text : texts_of(split)) texts.push_back(text);
    return texts;
  }

  /// Pieces in place of texts: tokenized, and what they came from forgotten.
  void encode() {
    tokenizer_ = options_.given;
    if (!tokenizer_) {
      if (options_.tokenizer != "bytes")
        say(fmt::format("making tokenizer {}", options_.tokenizer));
      tokenizer_ = make_tokenizer(options_.tokenizer, vocabulary_texts(), options_.end_of_document);
    }
    const auto token_bytes = tokenizer_->token_bytes();
    say("tokenizing");
    for (const auto& piece : pieces_) {
      const Document& document = documents_[piece.document];
      EncodedPiece encoded{.domain = domain_of_.at(piece.document), .split = piece.split};
      try {
        tokenizer_->encode(text_of(piece), encoded.ids);
      } catch (const Error& error) {
        fail(document.source, ": ", error.what());
      }
      if (encoded.ids.empty()) continue;  // nothing but newlines that are left out
      // Those that the tokens stand for, which bits per byte divides by: where a tokenizer leaves
      // something out, fewer than the text has.
      for (const TokenId id : encoded.ids)
        encoded.bytes += static_cast<std::uint64_t>(token_bytes[static_cast<std::size_t>(id)]);
      if (options_.end_of_document && piece.end == length_of(document))
        encoded.ids.push_back(tokenizer_->end_of_document());
      encoded_.push_back(std::move(encoded));
    }
    documents_.clear();
    result_.protocol = options_.protocol;
    result_.tokenizer = tokenizer_->spec();
    result_.vocab_size = tokenizer_->vocab_size();
  }

  void write() {
    if (options_.before_writing) options_.before_writing();
    say(fmt::format("writing {}", options_.out));
    TokenFileContents contents;
    contents.vocab_size = static_cast<std::uint32_t>(tokenizer_->vocab_size());
    for (const auto& domain : result_.domains) contents.domains.push_back(domain.name);
    for (const auto& piece : encoded_) {
      const DocumentRecord record{.begin = contents.tokens.size(),
                                  .tokens = piece.ids.size(),
                                  .bytes = piece.bytes,
                                  .domain = piece.domain,
                                  .split = piece.split};
      for (const TokenId id : piece.ids) contents.tokens.push_back(static_cast<std::uint32_t>(id));
      auto& count = result_.domains[record.domain].counts[static_cast<std::size_t>(record.split)];
      ++count.documents;
      count.tokens += static_cast<std::int64_t>(record.tokens);
      count.bytes += static_cast<std::int64_t>(record.bytes);
      contents.documents.push_back(record);
    }
    auto& fs = real_file_system();
    create_directories(fs, parent_directory(target_));
    AtomicDirectory directory(fs, target_);
    const auto tokens = directory.create(kTokensFile);
    result_.content_hash = fmt::format("{:016x}", write_token_file(*tokens, contents));
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
  const std::function<void(std::string_view)>& progress_;
  files::path target_;
  std::vector<Document> documents_;
  std::set<std::string> found_;  // domains of the system corpus, before anything is removed
  std::vector<EncodedPiece> encoded_;
  std::map<std::size_t, std::uint32_t> domain_of_;
  std::vector<Piece> pieces_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  PrepareResult result_;
};

nlohmann::ordered_json count_json(const TextCount& count) {
  return {{"documents", count.documents}, {"tokens", count.tokens}, {"bytes", count.bytes}};
}

}  // namespace

PrepareResult prepare_corpus(const PrepareOptions& options,
                             const std::function<void(std::string_view)>& progress) {
  return Preparation(options, progress).run();
}

std::string to_json(const PrepareResult& result) {
  nlohmann::ordered_json splits, domains;
  for (std::size_t s = 0; s < kSplits; ++s) {
    TextCount total;
    for (const auto& domain : result.domains) {
      total.documents += domain.counts[s].documents;
      total.tokens += domain.counts[s].tokens;
      total.bytes += domain.counts[s].bytes;
      domains[domain.name][std::string(kSplitNames[s])] = count_json(domain.counts[s]);
    }
    splits[std::string(kSplitNames[s])] = count_json(total);
  }
  nlohmann::ordered_json json = {{"tokenizer", result.tokenizer},
                                 {"vocab_size", result.vocab_size},
                                 {"content_hash", result.content_hash},
                                 {"splits", splits},
                                 {"domains", domains}};
  if (!result.protocol.empty()) json["protocol"] = result.protocol;
  if (result.deduplicated) {
    json["paragraphs"] = result.paragraphs;
    json["removed_paragraphs"] = result.removed_paragraphs;
    json["removed_bytes"] = result.removed_bytes;
    json["removed_documents"] = result.removed_documents;
    json["validation_overlap"] = result.validation_overlap;
  }
  json["notes"] = result.notes;
  // Domain names come from file names, which need not be UTF-8.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace penstock
