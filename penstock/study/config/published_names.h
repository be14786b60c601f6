// The names under which a study's file may state a paper's numbers, independent of its
// measurements: settings, losses and hours. A measurement defines its own names.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::study {

/// A column of settings; `name` is the name of the paper's number for it.
struct ShownSetting {
  std::string name, title, key;  ///< key: in the flattened settings
};
/// The columns of recipes.
const std::vector<ShownSetting>& recipe_columns();
/// Whether one of these columns has that name.
bool is_shown_setting(const std::string& name);

inline constexpr std::array<std::string_view, 2> kPublishedLosses = {"loss", "settled"};
inline constexpr std::array<std::string_view, 4> kPublishedHours = {"hours-1", "hours-2", "hours-3",
                                                                    "hours"};

/// Whether published = {NAME = ...} is shown beside a figure (tables/published_figures.h).
bool is_published_figure(const std::string& name);
/// "loss (validation), settled (step), hours-1, hours-2, hours-3, hours (of the stages)".
std::string published_figure_names();

}  // namespace penstock::study
