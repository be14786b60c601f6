#include "penstock/data/tokenizers/from_vocabulary.h"

#include "penstock/base/error.h"
#include "penstock/data/text/pre_tokenizers.h"
#include "penstock/data/tokenizers/byte_vocabulary_tokenizer.h"
#include "penstock/data/tokenizers/bytes_tokenizer.h"
#include "penstock/data/tokenizers/merging_tokenizer.h"
#include "penstock/data/tokenizers/score_tokenizer.h"
#include "penstock/data/tokenizers/sentencepiece_model.h"
#include "penstock/data/tokenizers/sentencepiece_tokenizer.h"

namespace penstock {
namespace {

using PieceType = Vocabulary::PieceType;

std::shared_ptr<const Tokenizer> make_byte_bpe(const Vocabulary& vocabulary) {
  MergingParts parts{.spec = "byte-bpe", .origin = "the vocabulary", .vocabulary = vocabulary};
  Vocabulary& own = parts.vocabulary;
  if (!own.pre.empty()) own.patterns = pre_tokenizer_patterns(own.pre);
  own.add_space_prefix = false;
  for (std::size_t id = 0; id < own.pieces.size(); ++id) {
    const auto& piece = own.pieces[id];
    const bool sought = piece.type == PieceType::kControl || piece.type == PieceType::kUnknown ||
                        piece.type == PieceType::kUserDefined;
    if (sought && !piece.text.empty())
      parts.added.push_back(added_token(own, static_cast<TokenId>(id)));
  }
  if (own.compose) parts.normalisers.push_back(normal_form_step(NormalForm::kNfc));
  for (const std::string& pattern : own.patterns) parts.cuts.push_back(isolating_step(pattern));
  return make_merging_tokenizer(std::move(parts));
}

std::shared_ptr<const Tokenizer> make_bytes(const Vocabulary& vocabulary) {
  return vocabulary.pieces.size() == 256 ? make_bytes_tokenizer(vocabulary)
                                         : make_byte_vocabulary(vocabulary);
}

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(const Vocabulary& vocabulary) {
  const auto size = std::ssize(vocabulary.pieces);
  PENSTOCK_CHECK(size > 0 && size <= kMaxPieces, "a vocabulary has from 1 to ", kMaxPieces,
                 " pieces, not ", size);
  for (const TokenId id : {vocabulary.bos, vocabulary.eos, vocabulary.unknown, vocabulary.padding})
    PENSTOCK_CHECK(id >= -1 && id < size, "the special id ", id, " is outside the vocabulary of ",
                   size);
  switch (vocabulary.kind) {
    case Vocabulary::Kind::kBytes:
      return make_bytes(vocabulary);
    case Vocabulary::Kind::kByteBpe:
      return make_byte_bpe(vocabulary);
    case Vocabulary::Kind::kSentencePieceBpe:
      return make_score_tokenizer(vocabulary, {.mark_is_text = !vocabulary.add_space_prefix});
    case Vocabulary::Kind::kSentencePieceUnigram:
      return load_sentencepiece_tokenizer(sentencepiece_model(vocabulary), "the vocabulary");
  }
  fail("a vocabulary of an unknown kind");
}

}  // namespace penstock
