// Penstock's own class for Hugging Face's transformers: its two Python files, what it computes, and
// the config.json that it reads.
#pragma once

#include <string>
#include <string_view>

#include "penstock/convert/export/export_target.h"
#include "penstock/convert/export/export_tensors.h"
#include "penstock/data/tokenizer.h"

namespace penstock {

/// The Python files, whose bytes are part of the library (penstock/convert/export/python).
namespace own_class {
extern const std::string_view configuration;
extern const std::string_view modeling;
}  // namespace own_class

/// The name under which it is asked for.
inline constexpr std::string_view kOwnClass = "penstock";

bool is_own_class(const ExportTarget& target);

/// The model as the class has it: its own tensors, routers that are not one matrix folded, and no
/// balancers. The class computes decoders, dense or with gates by ReLU or by a softmax of the k
/// highest logits.
/// Throws NotPortableError for any other.
ExportTarget own_class_target(const ModelConfig& config);

/// Whether own_class_target() gives one.
bool own_class_computes(const ModelConfig& config);

/// Whether the routers' tensors are written as they are, not folded.
bool keeps_routers(const ModelConfig& config);

/// The text of config.json, which Penstock opens too.
std::string own_class_config_text(const ExportTarget& target, ExportDtype dtype,
                                  const Tokenizer* tokenizer);

}  // namespace penstock
