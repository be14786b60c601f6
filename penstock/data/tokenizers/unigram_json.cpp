#include "penstock/data/tokenizers/unigram_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/data/text/byte_pieces.h"
#include "penstock/data/text/json_steps.h"
#include "penstock/data/tokenizers/from_vocabulary.h"
#include "penstock/data/tokenizers/sentencepiece_tokenizer.h"
#include "penstock/data/tokenizers/special_pieces.h"
#include "penstock/data/vocabulary.h"

namespace penstock {

std::shared_ptr<const Tokenizer> read_unigram_json(const nlohmann::json& root,
                                                   const nlohmann::json& config) {
  using PieceType = Vocabulary::PieceType;
  const auto& model = root.at("model");
  const auto step = [&](const char* name) { return root.value(name, nlohmann::json()); };
  const JsonSteps normalizer = read_normalizer(step("normalizer")),
                  pre_tokenizer = read_pre_tokenizer(step("pre_tokenizer"));
  const bool plain = normalizer.plain && pre_tokenizer.plain && !pre_tokenizer.bytes &&
                     pre_tokenizer.patterns.empty() && !normalizer.composes &&
                     normalizer.mark.empty() != pre_tokenizer.mark.empty();
  PENSTOCK_CHECK(plain && model.value("byte_fallback", false),
                 "a Unigram model that normalises or cuts text, or has no byte_fallback, is not "
                 "implemented in a tokenizer.json; give its tokenizer.model");
  Vocabulary vocabulary{.kind = Vocabulary::Kind::kSentencePieceUnigram};
  vocabulary.add_space_prefix = normalizer.prefixes_space || pre_tokenizer.prefixes_space;
  auto& pieces = vocabulary.pieces;
  for (const auto& entry : model.at("vocab")) {
    PENSTOCK_CHECK(std::ssize(pieces) < kMaxPieces, "it has more than ", kMaxPieces, " pieces");
    const auto text = entry.at(0).get<std::string>();
    const bool byte = piece_byte(text) >= 0;
    pieces.push_back(
        {text, entry.at(1).get<float>(), byte ? PieceType::kByte : PieceType::kNormal});
  }
  std::vector<AddedToken> added;
  for (const auto& entry : root.value("added_tokens", nlohmann::json::array())) {
    const auto id = entry.at("id").get<std::int64_t>();
    const bool known = id >= 0 && id < std::ssize(pieces) &&
                       entry.at("content") == pieces[static_cast<std::size_t>(id)].text;
    PENSTOCK_CHECK(known, "the added token ", id,
                   " is not among the pieces, which is not "
                   "implemented for a Unigram model");
    added.push_back(read_added_token(entry, static_cast<TokenId>(id)));
    const AddedToken& token = added.back();
    PENSTOCK_CHECK(!token.lstrip && !token.rstrip && !token.single_word, "the added token '",
                   token.content.substr(0, 60),
                   "' has lstrip, rstrip or single_word, which is not implemented for a Unigram "
                   "model");
    pieces[static_cast<std::size_t>(id)].type =
        added.back().control ? PieceType::kControl : PieceType::kUserDefined;
  }
  const auto unknown = model.value("unk_id", std::int64_t{-1});
  PENSTOCK_CHECK(unknown >= 0 && unknown < std::ssize(pieces), "its unk_id ", unknown,
                 " is no piece");
  vocabulary.unknown = static_cast<TokenId>(unknown);
  pieces[static_cast<std::size_t>(unknown)].type = PieceType::kUnknown;
  set_special_pieces(
      config, added,
      [&](const std::string& text) {
        const auto it = std::ranges::find(pieces, text, &Vocabulary::Piece::text);
        return it == pieces.end() ? -1 : static_cast<TokenId>(it - pieces.begin());
      },
      vocabulary);
  return make_tokenizer(vocabulary);
}

}  // namespace penstock
