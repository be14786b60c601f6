// The target of an export: format, architecture, and the config of the file's model.
// export_choice.h chooses the architecture.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "penstock/models/formats/architectures.h"
#include "penstock/models/model_config.h"

namespace penstock {

enum class ExportFormat { kHuggingFace, kGguf };
constexpr std::array<std::string_view, 2> words(ExportFormat) { return {"hf", "gguf"}; }

/// An architecture to export as.
struct ExportTarget {
  ExportFormat format = ExportFormat::kHuggingFace;
  /// An entry of the table, or Penstock's own class (convert/export/own_class.h); never null once
  /// chosen.
  const Architecture* architecture = nullptr;
  /// The config of the file's model: plain linear routers, granularity applied, and the parts that
  /// the architecture always has: biases of q, k and v, a shared expert, an untied head.
  ModelConfig config;
  /// Whether gates of the chosen experts are divided by their sum.
  bool renormalises = false;
  /// The weight of a shared expert's gate that replaces a missing gate: so small that its sigmoid
  /// is 1/2, but representable in the file's type.
  double gate_of_none = 0x1p-64;
  std::string note;  ///< what some programs are known to compute differently; "": nothing
};

}  // namespace penstock
