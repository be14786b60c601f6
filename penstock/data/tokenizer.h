// Tokenizers: text to token ids and back. Kinds: bytes, BPE or unigram trained through
// SentencePiece, those of published protocols, bytes by frequency and words, and those that come
// with models from elsewhere. Their files: docs/formats.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

using TokenId = std::int32_t;
struct Vocabulary;

/// A mapping between UTF-8 text and token ids. Immutable and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// What --tokenizer called it: "bytes", "bpe:4096", "unigram:4096", "words", ...
  virtual std::string spec() const = 0;
  virtual std::int64_t vocab_size() const = 0;
  /// The id that ends a document, or -1 where there is none. encode() never yields it.
  virtual TokenId end_of_document() const = 0;
  /// Appends the ids of `text`. decode(encode(text)) == text for every text that encode accepts;
  /// the kinds "words" and "byte-vocabulary-no-newlines" say what they lose. Throws Error for text
  /// that it cannot represent (a NUL byte where byte 0 ends a document).
  virtual void encode(std::string_view text, std::vector<TokenId>& ids) const = 0;
  /// As encode(), but where the text spells a control piece ("<s>", "<|endoftext|>") that piece is
  /// meant. For text of one's own; in anyone else's it would be theirs to say where documents end.
  virtual void encode_with_controls(std::string_view text, std::vector<TokenId>& ids) const;
  /// Appends the bytes that one id stands for; nothing for end-of-document and other control ids.
  /// A cut within a character gives invalid UTF-8. Throws Error for an id outside the vocabulary.
  virtual void decode(TokenId id, std::string& text) const = 0;
  /// The files that restore it, name to content.
  virtual std::map<std::string, std::string> files() const = 0;
  /// What it knows, without its file format (data/vocabulary.h); nothing where that cannot be said
  /// ("words", a normaliser of its own).
  virtual std::optional<Vocabulary> vocabulary() const;
  /// Encoding puts a space before the text, which decoding a whole text takes away again.
  virtual bool drops_first_space() const { return false; }

  std::vector<TokenId> encode(std::string_view text) const;
  std::vector<TokenId> encode_with_controls(std::string_view text) const;
  std::string decode(std::span<const TokenId> ids) const;
  /// Bytes of text per id, a space that encoding added included: what bits per byte divides by.
  std::vector<std::int32_t> token_bytes() const;
  /// Writes files() into an existing directory, each atomically.
  void save(const std::string& directory) const;
};

/// Restores the tokenizer whose files are in the directory, or that the file is.
/// Throws Error where there are none or they are damaged.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path);

/// What make_tokenizer makes.
inline constexpr const char* kTokenizerKinds =
    "bytes, bpe:N or unigram:N (N: the vocabulary's size), byte-vocabulary, "
    "byte-vocabulary-no-newlines or words";

/// Whether `spec` begins as one of kTokenizerKinds, whatever it says of the size.
bool is_tokenizer_kind(const std::string& spec);

/// Makes the tokenizer that `spec` names, one of kTokenizerKinds. All but the first learn from
/// `texts` (bpe and unigram from at most about 10 MB of them, evenly spread); the same texts give
/// the same tokenizer. Throws Error for an unknown spec, and for a vocabulary that is too large or
/// small for the text.
std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& spec,
                                                std::span<const std::string_view> texts,
                                                bool end_of_document = true);

/// What preparing a corpus must know of a tokenizer before the texts are read.
struct TokenizerTraits {
  /// Has an id to end documents with, if asked to.
  bool ends_documents = true;
  /// Every id stands for one byte, so that text may be cut anywhere.
  bool bytes = false;
  /// Text is to be cut between lines alone.
  bool lines = false;
  /// The vocabulary is that of all splits, as the published code has it.
  bool all_splits = false;
};

/// Throws Error unless make_tokenizer knows the spec.
TokenizerTraits tokenizer_traits(const std::string& spec);

}  // namespace penstock
