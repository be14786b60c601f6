#include "penstock/data/tokenizers/score_tokenizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "penstock/base/error.h"
#include "penstock/data/text/byte_pieces.h"
#include "penstock/data/text/merge_table.h"
#include "penstock/data/tokenizers/hugging_face_files.h"
#include "penstock/data/tokenizers/merge_scores.h"
#include "penstock/data/tokenizers/piece_tokenizer.h"
#include "penstock/data/tokenizers/sentencepiece_model.h"
#include "penstock/data/tokenizers/tokenizer_files.h"

namespace penstock {
namespace {

using PieceType = Vocabulary::PieceType;

class ScoreTokenizer : public PieceTokenizer {
 public:
  ScoreTokenizer(const Vocabulary& vocabulary, ScoreOptions options)
      : vocabulary_(vocabulary), options_(std::move(options)) {
    byte_ids_.fill(-1);
    texts_.reserve(vocabulary_.pieces.size());
    for (std::size_t id = 0; id < vocabulary_.pieces.size(); ++id)
      read_piece(static_cast<TokenId>(id));
    const std::size_t pieces = symbols_.size();
    symbols_.reserve(2 * pieces);
    for (std::size_t id = 0; id < texts_.size(); ++id)
      if (vocabulary_.pieces[id].type == PieceType::kNormal ||
          vocabulary_.pieces[id].type == PieceType::kUnused)
        add_merges(static_cast<TokenId>(id));
  }

  std::string spec() const override { return options_.spec; }
  std::int64_t vocab_size() const override { return std::ssize(texts_); }
  TokenId end_of_document() const override { return vocabulary_.eos; }

  bool drops_first_space() const override { return vocabulary_.add_space_prefix; }

  std::map<std::string, std::string> files() const override {
    if (!options_.files.empty()) return options_.files;
    // A tokenizer.model cannot describe these.
    if (!vocabulary_.added.empty() || (vocabulary_.begins_anew && has_user_defined_))
      return hugging_face_files(vocabulary_);
    return {{kSentencePieceFile, sentencepiece_model(vocabulary_)}};
  }
  std::optional<Vocabulary> vocabulary() const override { return vocabulary_; }

 private:
  /// Adds a control or user-defined piece to the pieces that are searched for in text.
  void add_sought(TokenId id) {
    AddedToken token = added_token(vocabulary_, id);
    token.control =
        vocabulary_.pieces[static_cast<std::size_t>(id)].type != PieceType::kUserDefined;
    has_user_defined_ = has_user_defined_ || !token.control;
    if (vocabulary_.begins_anew && token.normalized && vocabulary_.add_space_prefix)
      token.content.insert(0, " ");
    if (!vocabulary_.begins_anew && !token.control) {
      token.normalized = true;
      token.content = replaced(token.content, kSpaceMark, " ");
    }
    seek(token);
  }

  void read_piece(TokenId id) {
    const auto& piece = vocabulary_.pieces[static_cast<std::size_t>(id)];
    std::string text = replaced(piece.text, kSpaceMark, " ");
    PENSTOCK_CHECK(std::isfinite(piece.score), options_.origin, ": the score of piece ", id,
                   " is not a number");
    switch (piece.type) {
      case PieceType::kUnknown:
      case PieceType::kControl:
        if (!piece.text.empty() && id != vocabulary_.unknown) add_sought(id);
        text.clear();
        break;
      case PieceType::kByte: {
        const int byte = piece_byte(piece.text);
        PENSTOCK_CHECK(byte >= 0, options_.origin, ": odd byte piece '", piece.text.substr(0, 60),
                       "'");
        byte_ids_[static_cast<std::size_t>(byte)] = id;
        text = static_cast<char>(byte);
        break;
      }
      case PieceType::kUserDefined:
        add_sought(id);
        break;
      case PieceType::kNormal:
        PENSTOCK_CHECK(!text.empty() && text.size() <= kLongestScoredPiece, options_.origin,
                       ": piece ", id, " has ", text.size(), " bytes; from 1 to ",
                       kLongestScoredPiece, " are taken");
        symbols_.try_emplace(text, id);
        break;
      case PieceType::kUnused:
        break;
    }
    texts_.push_back(std::move(text));
  }

  /// The id of a piece, or of a character that is part of pieces but is no piece itself. Such a
  /// character has an id beyond the vocabulary.
  TokenId symbol(std::string_view text) {
    if (const auto it = symbols_.find(std::string(text)); it != symbols_.end()) return it->second;
    if (character_bytes(text) != text.size()) return -1;
    const auto id = static_cast<TokenId>(vocab_size() + std::ssize(extra_));
    symbols_.emplace(text, id);
    extra_.emplace_back(text);
    return id;
  }

  void add_merges(TokenId id) {
    const auto& piece = vocabulary_.pieces[static_cast<std::size_t>(id)];
    const std::string& text = texts_[static_cast<std::size_t>(id)];
    if (text.size() > kLongestScoredPiece) return;
    for_each_cut(text, [&](std::string_view left, std::string_view right) {
      const TokenId a = symbol(left), b = symbol(right);
      if (a < 0 || b < 0) return;
      PENSTOCK_CHECK(piece.type == PieceType::kNormal, options_.origin, ": the unused piece '",
                     piece.text, "' can be merged into, which is not implemented");
      const auto* known = table_.find(a, b);  // among pieces with the same text the first counts
      if (!known) table_.add(a, b, {-static_cast<double>(piece.score), id});
    });
  }

  /// Encodes text. Normalised added tokens are searched for in text that has the prefix space.
  void encode_with(const Added& added, std::string_view text,
                   std::vector<TokenId>& ids) const override {
    for (const auto& part : added.raw.cut(text))
      part.id >= 0 ? ids.push_back(part.id) : encode_between(added.normalised, part.text, ids);
  }

  void encode_between(const AddedTokens& added, std::string_view text,
                      std::vector<TokenId>& ids) const {
    std::string spaced = vocabulary_.add_space_prefix ? " " : "";
    spaced += text;
    if (!options_.mark_is_text) spaced = replaced(spaced, kSpaceMark, " ");
    for (const auto& part : added.cut(spaced))
      part.id >= 0 ? ids.push_back(part.id) : encode_plain(part.text, ids);
  }

  void encode_plain(std::string_view text, std::vector<TokenId>& ids) const {
    constexpr TokenId kNoPiece = -1;
    std::vector<TokenId> symbols;
    std::vector<std::string_view> missing;
    while (!text.empty()) {
      const std::string_view character = text.substr(0, character_bytes(text));
      text.remove_prefix(character.size());
      const auto it = symbols_.find(std::string(character));
      symbols.push_back(it == symbols_.end() ? kNoPiece : it->second);
      if (it == symbols_.end()) missing.push_back(character);
    }
    table_.apply(symbols);
    auto next = missing.begin();
    for (const TokenId symbol : symbols) {
      if (symbol >= 0 && symbol < vocab_size())
        ids.push_back(symbol);
      else
        add_bytes(symbol < 0 ? *next++ : extra_[static_cast<std::size_t>(symbol - vocab_size())],
                  ids);
    }
  }

  void add_bytes(std::string_view character, std::vector<TokenId>& ids) const {
    const auto byte_id = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
    if (std::ranges::all_of(character, [&](char c) { return byte_id(c) >= 0; })) {
      for (const char c : character) ids.push_back(byte_id(c));
      return;
    }
    PENSTOCK_CHECK(vocabulary_.unknown >= 0, "the character '", std::string(character),
                   "' is not in ", options_.origin);
    ids.push_back(vocabulary_.unknown);
  }

  Vocabulary vocabulary_;
  ScoreOptions options_;
  std::unordered_map<std::string, TokenId> symbols_;
  std::vector<std::string> extra_;  // [id - vocab_size]
  std::array<TokenId, 256> byte_ids_;
  MergeTable table_;
  bool has_user_defined_ = false;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_score_tokenizer(const Vocabulary& vocabulary,
                                                      ScoreOptions options) {
  const auto size = std::ssize(vocabulary.pieces);
  for (const TokenId id : {vocabulary.bos, vocabulary.eos, vocabulary.unknown, vocabulary.padding})
    PENSTOCK_CHECK(id >= -1 && id < size, options.origin, ": the special id ", id,
                   " is outside the vocabulary of ", size);
  return std::make_shared<ScoreTokenizer>(vocabulary, std::move(options));
}

}  // namespace penstock
