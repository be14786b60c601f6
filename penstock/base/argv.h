// The arguments of a program as exec takes them.
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// Pointers to the words, and a null at the end. The words must outlive them.
inline std::vector<char*> argv_of(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace penstock
