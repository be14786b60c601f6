// A study's TOML file: a base recipe, named variants and seeds, at a scale. Only what the file
// says; what is to be run follows in study_runner.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/io/toml.h"
#include "penstock/study/config/closed_form.h"
#include "penstock/study/config/comparison.h"
#include "penstock/study/measurement.h"

namespace penstock::study {

/// One variant: a line of the comparison.
struct Variant {
  std::string name;   ///< the table's key; also the folder of its runs
  std::string label;  ///< the name that people see
  ConfigNode recipe;  ///< with every override but the seed
  /// Name of the variant whose training FLOPs this one spends, by more steps; empty: as the recipe.
  std::string match_compute;
  /// Name of the variant whose last checkpoint of the same seed training begins with, or, with
  /// from_model, a model's place; empty: random weights. The recipe's [model] is then not read.
  std::string from;
  bool from_model = false;
  ConfigNode upcycle;  ///< how that model is made an MoE first; empty: it is taken as it is
  /// What its own `set` says of the [model] that it begins with: coefficients of its router's
  /// losses, the only keys that may change. Empty: nothing, as for a variant without `from`.
  ConfigNode retuned;
};

struct StudyConfig {
  std::string path;
  std::string name;
  std::string title;
  std::string claim;  ///< what the study asks, one or two sentences
  std::string scale;  ///< the one in use; empty where the file has none
  std::vector<std::int64_t> seeds;
  std::vector<Variant> variants;                         ///< in the file's order
  RunCheckpoint eval_checkpoint = RunCheckpoint::final;  ///< which one is measured
  Measurements measurements;  ///< one of each kind, with what the study asks of it
  /// Shown besides: words of report_words() (study_fields.h).
  std::vector<std::string> report;
  std::vector<ClosedForm> closed_forms;  ///< in the file's order

  std::string runs_of;  ///< study whose runs these are; empty: its own
  Comparison comparison;

  /// Whether the study's report needs runs.
  bool trains() const;
};

/// The content of the TOML file at the path.
using TomlFiles = std::function<ConfigNode(const std::string& path)>;

/// Reads a study and the recipes it names (relative to the study's folder). With `like`, the file
/// is laid over that study's.
///   recipe = the scale's base, variant's own or base, then [set], then the scale's set, then the
///   variant's set, then
///            the scale's set for the variant, then `overrides` (k=v)
/// @param scale  one of the file's [scale.NAME] tables; "": its "desk", where it has scales
/// Overrides that a measurement takes ("finetune.NAME.data=DIR") are its own.
/// @param read  whence the study and its recipes come
/// @param option  that the overrides were given with, for errors (apply_overrides)
/// Throws Error with file and line for unknown keys, a missing recipe, a scale that the file lacks,
/// a variant that matches the compute of an unknown one or of one that matches itself, and names
/// unfit for folders.
StudyConfig read_study(const std::string& path, std::span<const std::string> overrides = {},
                       const std::string& scale = {}, const TomlFiles& read = read_toml,
                       const std::string& option = {});

}  // namespace penstock::study
