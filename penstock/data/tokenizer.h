// Tokenizers: text to token ids and back. The kinds of tokenizer are in tokenizers/, with functions
// that make one from a kind's name, a vocabulary or files. docs/formats.md has the files' formats.
#pragma once

#include <cstdint>
#include <map>
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
  /// The value of --tokenizer that made it: "bytes", "bpe:4096", "unigram:4096", "words", ...
  virtual std::string spec() const = 0;
  virtual std::int64_t vocab_size() const = 0;
  /// The id that ends a document, or -1 where there is none. encode() never yields it.
  virtual TokenId end_of_document() const = 0;
  /// Appends the ids of `text`. decode(encode(text)) == text for every text that encode accepts;
  /// the kinds "words" and "byte-vocabulary-no-newlines" say what they lose. Throws Error for text
  /// that it cannot represent (a NUL byte where byte 0 ends a document).
  virtual void encode(std::string_view text, std::vector<TokenId>& ids) const = 0;
  /// As encode(), but a control piece that the text spells ("<s>", "<|endoftext|>") becomes that
  /// piece's id. Only for trusted text: untrusted text could set the ends of documents.
  virtual void encode_with_controls(std::string_view text, std::vector<TokenId>& ids) const;
  /// Appends the bytes that one id stands for; nothing for end-of-document and other control ids.
  /// A cut within a character gives invalid UTF-8. Throws Error for an id outside the vocabulary.
  virtual void decode(TokenId id, std::string& text) const = 0;
  /// The files that restore the tokenizer: name to content.
  virtual std::map<std::string, std::string> files() const = 0;
  /// The tokenizer's vocabulary, independent of file formats (data/vocabulary.h). Nothing if a
  /// Vocabulary cannot describe the tokenizer ("words", or a normaliser of its own).
  virtual std::optional<Vocabulary> vocabulary() const;
  /// Whether encoding puts a space before the text, which decoding a whole text removes.
  virtual bool drops_first_space() const { return false; }

  /// The id that programs which run the model put before a document (Vocabulary::add_bos), or -1
  /// where they put none. encode() does not add it.
  TokenId beginning_of_document() const;
  std::vector<TokenId> encode(std::string_view text) const;
  std::vector<TokenId> encode_with_controls(std::string_view text) const;
  /// encode() of a file's text. Errors begin with the file's name.
  std::vector<TokenId> encode_file(const std::string& file, std::string_view text) const;
  std::string decode(std::span<const TokenId> ids) const;
  /// Bytes of text per id, including a space that encoding added. Bits per byte divides by them.
  std::vector<std::int32_t> token_bytes() const;
  /// Writes files() into an existing directory, each atomically.
  void save(const std::string& directory) const;

 protected:
  /// Throws Error for an id outside the vocabulary.
  void check_id(TokenId id) const;
};

}  // namespace penstock
