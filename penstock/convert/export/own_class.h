// Penstock's own class for Hugging Face's transformers: its two Python files, the check of which
// models it can compute, and its config.json.
#pragma once

#include <string>
#include <string_view>

#include "penstock/convert/export/export_target.h"
#include "penstock/convert/export/export_tensors.h"
#include "penstock/models/files/generation_files.h"

namespace penstock {

/// The Python files, whose bytes are part of the library (penstock/convert/export/python).
namespace own_class {
extern const std::string_view configuration;
extern const std::string_view modeling;
}  // namespace own_class

/// The architecture name that selects this class.
inline constexpr std::string_view kOwnClass = "penstock";

bool is_own_class(const ExportTarget& target);

/// The target for the class: the model's own tensors, without balancers. Routers that are not a
/// single matrix are folded. The class computes decoders that are dense, or have ReLU gates or
/// softmax gates over the k highest logits.
/// Throws NotPortableError for any other model.
ExportTarget own_class_target(const ModelConfig& config);

/// Whether own_class_target() succeeds.
bool own_class_computes(const ModelConfig& config);

/// Whether the routers' tensors are written as they are, not folded.
bool keeps_routers(const ModelConfig& config);

/// The text of config.json, which Penstock opens too.
std::string own_class_config_text(const ExportTarget& target, ExportDtype dtype,
                                  const SpecialIds& ids);

}  // namespace penstock
