// Writes config.json for a class of Hugging Face's transformers, and the keys that every
// config.json has.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/convert/export/export_target.h"
#include "penstock/convert/export/export_tensors.h"
#include "penstock/models/files/generation_files.h"

namespace penstock {

/// The text of config.json for a class of transformers.
std::string hugging_face_config_text(const ExportTarget& target, ExportDtype dtype,
                                     const SpecialIds& ids);
/// Adds the keys that end every config.json: the ids of special tokens, null if there is none, and
/// the type of the tensors. Returns the whole text.
std::string finished_config_text(nlohmann::ordered_json config, ExportDtype dtype,
                                 const SpecialIds& ids);

}  // namespace penstock
