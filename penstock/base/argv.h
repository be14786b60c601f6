// Converts a program's arguments to the form that exec() takes.
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// Pointers to the words, and a null at the end. REQUIRES: the words outlive the result.
inline std::vector<char*> argv_of(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace penstock
