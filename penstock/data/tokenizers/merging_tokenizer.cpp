#include "penstock/data/tokenizers/merging_tokenizer.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "penstock/base/error.h"
#include "penstock/data/text/byte_pieces.h"
#include "penstock/data/text/merge_table.h"
#include "penstock/data/text/printable_bytes.h"
#include "penstock/data/tokenizers/hugging_face_files.h"
#include "penstock/data/tokenizers/piece_tokenizer.h"

namespace penstock {
namespace {

using PieceType = Vocabulary::PieceType;
using IdsByText = std::unordered_map<std::string, TokenId>;

class MergingTokenizer : public PieceTokenizer {
 public:
  explicit MergingTokenizer(MergingParts parts) : parts_(std::move(parts)) {
    ids_.reserve(parts_.vocabulary.pieces.size());
    for (std::size_t id = 0; id < parts_.vocabulary.pieces.size(); ++id)
      if (const auto& piece = parts_.vocabulary.pieces[id]; piece.type != PieceType::kUnused)
        ids_.try_emplace(piece.text, static_cast<TokenId>(id));
    read_merges();
    read_bytes();
    read_added();
    read_words();
  }

  std::string spec() const override { return parts_.spec; }
  std::int64_t vocab_size() const override { return std::ssize(parts_.vocabulary.pieces); }
  TokenId end_of_document() const override { return parts_.vocabulary.eos; }

  bool drops_first_space() const override { return parts_.drops_first_space; }

  std::map<std::string, std::string> files() const override {
    return parts_.files.empty() ? hugging_face_files(*vocabulary()) : parts_.files;
  }

  std::optional<Vocabulary> vocabulary() const override {
    if (!parts_.told_by_vocabulary) return std::nullopt;
    Vocabulary out = parts_.vocabulary;
    const auto text = [&](TokenId id) { return out.pieces[static_cast<std::size_t>(id)].text; };
    if (out.kind == Vocabulary::Kind::kByteBpe)
      for (const auto& [left, right] : merges_) out.merges.emplace_back(text(left), text(right));
    return out;
  }

 private:
  void read_merges() {
    auto& merges = parts_.vocabulary.merges;
    table_.reserve(merges.size());
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const auto& [left, right] = merges[rank];
      const auto a = ids_.find(left), b = ids_.find(right), both = ids_.find(left + right);
      PENSTOCK_CHECK(a != ids_.end() && b != ids_.end() && both != ids_.end(), parts_.origin,
                     ": merge ", rank + 1, " of '", left.substr(0, 60), "' and '",
                     right.substr(0, 60),
                     "' is of pieces or makes one that are not in the "
                     "vocabulary");
      PENSTOCK_CHECK(both->second != parts_.vocabulary.eos, parts_.origin, ": merge ", rank + 1,
                     " makes the piece that ends a document");
      table_.add(a->second, b->second, {static_cast<double>(rank), both->second});
      merges_.emplace_back(a->second, b->second);
    }
    merges = {};
  }

  /// Reads the ids of single bytes, and the text that each id decodes to.
  void read_bytes() {
    byte_ids_.fill(-1);
    const auto names = printable_bytes();
    std::unordered_map<std::string, char> values;
    for (std::size_t byte = 0; byte < names.size(); ++byte) {
      values[names[byte]] = static_cast<char>(byte);
      if (const auto it = ids_.find(parts_.bytes ? names[byte] : byte_piece(byte));
          it != ids_.end() && (parts_.bytes || parts_.byte_fallback))
        byte_ids_[byte] = it->second;
    }
    has_all_bytes_ = std::ranges::find(byte_ids_, -1) == byte_ids_.end();
    for (const auto& piece : parts_.vocabulary.pieces) {
      texts_.emplace_back();
      if (piece.type == PieceType::kUnused) continue;
      if (parts_.bytes && !printable_to_bytes(piece.text, values, texts_.back()))
        texts_.back() = piece.text;
      else if (!parts_.bytes)
        texts_.back() = replaced(piece.text, parts_.mark, " ");
    }
    if (parts_.byte_fallback && !parts_.bytes)
      for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte)
        if (byte_ids_[byte] >= 0)
          texts_[static_cast<std::size_t>(byte_ids_[byte])] = static_cast<char>(byte);
  }

  /// Appends the bytes that the characters of `text` stand for. Returns false if a character stands
  /// for no byte.
  static bool printable_to_bytes(std::string_view text,
                                 const std::unordered_map<std::string, char>& values,
                                 std::string& out) {
    while (!text.empty()) {
      const std::size_t length = character_bytes(text);
      const auto it = values.find(std::string(text.substr(0, length)));
      if (it == values.end()) return false;
      out += it->second;
      text.remove_prefix(length);
    }
    return true;
  }

  void read_added() {
    for (AddedToken token : parts_.added) {
      PENSTOCK_CHECK(token.id >= 0 && token.id < vocab_size(), parts_.origin, ": the added token ",
                     token.id, " is outside the vocabulary");
      texts_[static_cast<std::size_t>(token.id)] = token.control ? "" : token.content;
      if (token.normalized) token.content = normalised(token.content);
      if (token.content.empty()) continue;
      seek(token);
    }
    if (parts_.vocabulary.unknown >= 0)
      texts_[static_cast<std::size_t>(parts_.vocabulary.unknown)].clear();
  }

  void read_words() {
    if (!parts_.vocabulary.ignore_merges) return;
    for (std::size_t id = 0; id < texts_.size(); ++id)
      if (parts_.vocabulary.pieces[id].type == PieceType::kNormal)
        words_.try_emplace(parts_.bytes ? texts_[id] : parts_.vocabulary.pieces[id].text,
                           static_cast<TokenId>(id));
  }

  std::string normalised(std::string_view text) const {
    std::vector<std::string> pieces = {std::string(text)};
    apply(parts_.normalisers, pieces, true);
    return pieces.front();
  }

  void encode_with(const Added& added, std::string_view text,
                   std::vector<TokenId>& ids) const override {
    bool begins = true;
    for (const auto& raw : added.raw.cut(text)) {
      if (raw.id >= 0) {
        ids.push_back(raw.id);
      } else {
        const std::string between = normalised(raw.text);
        bool begins_here = begins;
        for (const auto& part : added.normalised.cut(between)) {
          if (part.id >= 0)
            ids.push_back(part.id);
          else
            encode_words(part.text, begins_here, ids);
          begins_here = false;
        }
      }
      begins = false;
    }
  }

  void encode_words(std::string_view text, bool begins, std::vector<TokenId>& ids) const {
    std::vector<std::string> words = {std::string(text)};
    apply(parts_.cuts, words, begins);
    std::vector<TokenId> symbols;
    for (const std::string& word : words) {
      if (parts_.vocabulary.ignore_merges) {
        if (const auto it = words_.find(word); it != words_.end()) {
          ids.push_back(it->second);
          continue;
        }
      }
      symbols.clear();
      parts_.bytes ? add_bytes(word, symbols) : add_characters(word, symbols);
      table_.apply(symbols);
      ids.insert(ids.end(), symbols.begin(), symbols.end());
    }
  }

  void add_bytes(std::string_view text, std::vector<TokenId>& symbols) const {
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      PENSTOCK_CHECK(byte_ids_[byte] >= 0, "the byte ", static_cast<int>(byte), " in '",
                     std::string(text.substr(0, 60)), "' is not in the vocabulary of ",
                     parts_.origin);
      symbols.push_back(byte_ids_[byte]);
    }
  }

  void add_characters(std::string_view text, std::vector<TokenId>& symbols) const {
    bool after_unknown = false;
    while (!text.empty()) {
      const std::string character(text.substr(0, character_bytes(text)));
      text.remove_prefix(character.size());
      if (const auto it = ids_.find(character); it != ids_.end()) {
        symbols.push_back(it->second);
        after_unknown = false;
      } else if (has_all_bytes_) {
        add_bytes(character, symbols);
        after_unknown = false;
      } else {
        PENSTOCK_CHECK(parts_.vocabulary.unknown >= 0, "the character '", character,
                       "' is not in the vocabulary of ", parts_.origin);
        if (!after_unknown || !parts_.fuse_unknown) symbols.push_back(parts_.vocabulary.unknown);
        after_unknown = true;
      }
    }
  }

  MergingParts parts_;
  IdsByText ids_;    // ids of pieces as spelled
  IdsByText words_;  // ids of whole words, if words are looked up before merging
  std::vector<std::pair<TokenId, TokenId>> merges_;
  MergeTable table_;
  std::array<TokenId, 256> byte_ids_;
  bool has_all_bytes_ = false;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_merging_tokenizer(MergingParts parts) {
  return std::make_shared<MergingTokenizer>(std::move(parts));
}

}  // namespace penstock
