// config.json of a class of Hugging Face's transformers, and what any config.json there has.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/convert/export/export_target.h"
#include "penstock/convert/export/export_tensors.h"
#include "penstock/data/tokenizer.h"

namespace penstock {

/// The text of config.json, of a class of transformers.
std::string hugging_face_config_text(const ExportTarget& target, ExportDtype dtype,
                                     const Tokenizer* tokenizer);
/// Keys of any config.json: ids of special tokens, null where there is none.
void add_token_ids(const Tokenizer* tokenizer, nlohmann::ordered_json& out);
const char* torch_dtype_name(ExportDtype dtype);

}  // namespace penstock
