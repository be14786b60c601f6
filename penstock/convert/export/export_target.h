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
  /// Of the table, or Penstock's own class (convert/export/own_class.h); never null once chosen.
  const Architecture* architecture = nullptr;
  /// Of what the file holds: plain linear routers, granularity applied, and what the architecture
  /// has whether the model needs it or not: biases of q, k and v, a shared expert, a head of its
  /// own.
  ModelConfig config;
  /// Gates of the chosen experts are divided by their sum.
  bool renormalises = false;
  /// Size of a shared expert's gate that stands for none: so small that its sigmoid is 1/2, and a
  /// number of the file's type still.
  double gate_of_none = 0x1p-64;
  std::string note;  ///< what some programs would compute otherwise; "": none known
};

}  // namespace penstock
