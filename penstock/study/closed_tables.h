// What a study shows without training: its settings, and HyperRouter's closed forms.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "penstock/study/shown_table.h"
#include "penstock/study/study_config.h"

namespace penstock::study {

/// A column of the table of settings: published numbers go by `name`.
struct ShownSetting {
  std::string name, title, key;  ///< key: of a resolved recipe
};
extern const std::vector<ShownSetting> kShownSettings;

/// The tables of study.report in its order: "settings" of the variants' recipes (HyperRouter's
/// Table A1) and of the fine-tunings (A2), with the paper's beneath, "A3" and "A4" in closed form
/// with the paper's cells. `resolve` completes a recipe.
std::vector<ShownTable> closed_tables(const StudyConfig& study,
                                      const std::function<ConfigNode(const ConfigNode&)>& resolve);

}  // namespace penstock::study
