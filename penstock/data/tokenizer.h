// The interface of tokenizers: text to token ids and back. The folder tokenizers/ has the kinds of
// tokenizer, and functions that make one from a kind's name, a vocabulary or files. docs/formats.md
// describes the files' formats.
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
  /// The id that ends a document, or -1 if there is none. encode() never yields it.
  virtual TokenId end_of_document() const = 0;
  /// Appends the ids of `text`. decode(encode(text)) == text for every text that encode() accepts,
  /// except for the losses that the headers of single kinds name ("words",
  /// "byte-vocabulary-no-newlines"). Throws Error for text that the tokenizer cannot represent (a
  /// NUL byte if byte 0 ends a document).
  virtual void encode(std::string_view text, std::vector<TokenId>& ids) const = 0;
  /// As encode(), but the text of a control piece ("<s>", "<|endoftext|>") becomes that piece's id.
  /// Only for trusted text: untrusted text could insert ends of documents.
  virtual void encode_with_controls(std::string_view text, std::vector<TokenId>& ids) const;
  /// Appends the bytes that one id stands for; nothing for end-of-document and other control ids.
  /// Gives invalid UTF-8 if the id is a part of a character. Throws Error for an id outside the
  /// vocabulary.
  virtual void decode(TokenId id, std::string& text) const = 0;
  /// The files from which the tokenizer can be loaded: name to content.
  virtual std::map<std::string, std::string> files() const = 0;
  /// The tokenizer's vocabulary, independent of file formats (data/vocabulary.h). Nothing if a
  /// Vocabulary cannot describe the tokenizer ("words", or a tokenizer with an unusual normaliser).
  virtual std::optional<Vocabulary> vocabulary() const;
  /// Whether encode() puts a space before the text, which decode() of a whole text removes.
  virtual bool drops_first_space() const { return false; }

  /// The id that begins each document of the model's input (Vocabulary::add_bos), or -1 if there is
  /// none. encode() does not add it.
  TokenId beginning_of_document() const;
  std::vector<TokenId> encode(std::string_view text) const;
  std::vector<TokenId> encode_with_controls(std::string_view text) const;
  /// encode() of a file's text. Errors begin with the file's name.
  std::vector<TokenId> encode_file(const std::string& file, std::string_view text) const;
  std::string decode(std::span<const TokenId> ids) const;
  /// Bytes of text per id, including a space that encode() added. Bits per byte divides by them.
  std::vector<std::int32_t> token_bytes() const;
  /// Writes files() into an existing directory, each atomically.
  void save(const std::string& directory) const;

 protected:
  /// Throws Error for an id outside the vocabulary.
  void check_id(TokenId id) const;
};

}  // namespace penstock
