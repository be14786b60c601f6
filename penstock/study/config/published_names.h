// The names under which a study's file may state a paper's numbers, whichever measurements it asks
// for: settings, losses and hours. Those of a measurement are the measurement's.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::study {

/// A column of settings; published numbers go by `name`.
struct ShownSetting {
  std::string name, title, key;  ///< key: of flattened settings
};
/// The columns of recipes.
const std::vector<ShownSetting>& recipe_columns();
/// Whether these have one of that name.
bool is_shown_setting(const std::string& name);

inline constexpr std::array<std::string_view, 2> kPublishedLosses = {"loss", "settled"};
inline constexpr std::array<std::string_view, 4> kPublishedHours = {"hours-1", "hours-2", "hours-3",
                                                                    "hours"};

/// Whether published = {NAME = ...} is shown beside such a figure (tables/published_figures.h).
bool is_published_figure(const std::string& name);
/// "loss (validation), settled (step), hours-1, hours-2, hours-3, hours (of the stages)".
std::string published_figure_names();

}  // namespace penstock::study
