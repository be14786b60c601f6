// Finds the pieces that begin and end documents, by a tokenizer_config.json or by the pieces'
// names.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "penstock/data/text/added_tokens.h"
#include "penstock/data/vocabulary.h"

namespace penstock {

/// Sets bos, eos, padding and add_bos from `config` (a tokenizer_config.json, or null). A piece
/// that `config` does not name is the first of the usual names among the added control tokens. `id`
/// gives a piece's id, or -1.
void set_special_pieces(const nlohmann::json& config, const std::vector<AddedToken>& added,
                        const std::function<TokenId(const std::string&)>& id,
                        Vocabulary& vocabulary);

/// Reads an entry of "added_tokens" or "added_tokens_decoder".
AddedToken read_added_token(const nlohmann::json& json, TokenId id);

}  // namespace penstock
