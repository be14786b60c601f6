// A set of labelled texts, independent of the files that they came from.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace penstock {

/// Texts with their classes. texts.size() == labels.size(); labels index class_names.
struct ClassificationSet {
  std::vector<std::string> texts;
  std::vector<int> labels;
  std::vector<std::string> class_names;

  std::size_t size() const { return texts.size(); }
  bool empty() const { return texts.empty(); }
  int classes() const { return static_cast<int>(class_names.size()); }
};

}  // namespace penstock
