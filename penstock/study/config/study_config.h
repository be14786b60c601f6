// A study's TOML file: a base recipe, named variants and seeds, at a scale. It holds only the
// file's content; study_runner.h derives the runs.
#pragma once

#include <cstdint>
#include <functional>
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
  /// Name of the variant whose training FLOPs this one matches by its number of steps; empty: the
  /// recipe's steps.
  std::string match_compute;
  /// Training begins with the last checkpoint of this variant's run of the same seed, or with
  /// from_model at a model's path; empty: random weights. If it is not empty, the recipe's [model]
  /// is not read.
  std::string from;
  bool from_model = false;
  ConfigNode upcycle;  ///< keys for upcycling that model first; empty: it is used as it is
  /// Its own `set` keys that change the [model] that it begins with. Only coefficients of router
  /// losses may change. Empty: no changes, as for a variant without `from`.
  ConfigNode retuned;
};

struct StudyConfig {
  std::string path;
  std::string name;
  std::string title;
  std::string claim;  ///< the study's question, in one or two sentences
  std::string scale;  ///< the scale in use; empty if the file has none
  std::vector<std::int64_t> seeds;
  std::vector<Variant> variants;                         ///< in the file's order
  RunCheckpoint eval_checkpoint = RunCheckpoint::final;  ///< the checkpoint that is measured
  Measurements measurements;  ///< one of each kind, with the study's settings for it
  /// The additional sections of the report: words of report_words() (study_fields.h).
  std::vector<std::string> report;
  std::vector<ClosedForm> closed_forms;  ///< in the file's order

  std::string runs_of;  ///< name of the study whose runs it uses; empty: it has its own
  Comparison comparison;

  /// Whether the study's report needs runs.
  bool trains() const;
};

/// The content of the TOML file at the path.
using TomlFiles = std::function<ConfigNode(const std::string& path)>;

/// Reads a study and the recipes it names (relative to the study's folder). With `like`, the file
/// overrides that study's file.
///   recipe = the scale's base, the variant's own recipe or the study's base, then the study's set,
///            the scale's set, the variant's set, the scale's set for the variant, `overrides`
///            (k=v)
/// Overrides that a measurement takes ("finetune.NAME.data=DIR") go to the measurement.
/// @param scale  one of the file's [scale.NAME] tables; "": "desk", if the file has scales
/// @param read  reads the study's file and its recipes
/// @param option  the option that gave the overrides, for errors (apply_overrides)
/// Throws Error with file and line for unknown keys, a missing recipe, a scale that the file lacks,
/// a variant that matches the compute of an unknown variant or of a variant that itself matches
/// another's, wrong pairs (chosen_pairs.h), and names that cannot be folder names.
StudyConfig read_study(const std::string& path, std::span<const std::string> overrides = {},
                       const std::string& scale = {}, const TomlFiles& read = read_toml,
                       const std::string& option = {});

}  // namespace penstock::study
