// What `penstock info` says of a study: a line for each variant.
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// A study as it was asked for.
struct StudyQuestion {
  std::string file;
  std::vector<std::string> overrides;
  std::string scale;  ///< empty: the study's own
};

/// Prints the variants of a study, as a table or one JSON object.
void print_study(const StudyQuestion& question, bool json);

}  // namespace penstock
