// The output of `penstock info` for a study: a line for each variant.
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// The study that the command line names.
struct StudyQuestion {
  std::string file;
  std::vector<std::string> overrides;
  std::string scale;  ///< empty: the study's own
};

/// Prints the variants of a study, as a table or one JSON object.
void print_study(const StudyQuestion& question, bool json);

}  // namespace penstock
