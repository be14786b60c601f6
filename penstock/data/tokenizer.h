// Tokenizers: text to token ids and back. The kinds, and what makes one from a kind's name, a
// vocabulary or files, are in tokenizers/; the files' formats in docs/formats.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/token_id.h"

namespace penstock {

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

}  // namespace penstock
