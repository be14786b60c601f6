// A choice of documents up to a number of bytes that does not depend on the order in which they
// come, nor on more of them being held than are chosen.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "penstock/data/corpus/documents.h"

namespace penstock {

/// Of the documents that are offered, those first in an order drawn from the seed and their names,
/// up to the first that would bring them above `bytes`. Memory: `bytes` of text, and one document.
class SeededChoice {
 public:
  SeededChoice(std::uint64_t seed, std::uint64_t bytes) : seed_(seed), limit_(bytes) {}

  /// @param name  tells the documents apart: the same names give the same choice
  void offer(const std::string& name, Document document);
  std::uint64_t bytes() const { return bytes_; }
  /// Calls visit(document) for each that is chosen, in that order, and lets go of them.
  template <class Visit>
  void take(Visit visit) {
    for (auto& [key, document] : chosen_) visit(std::move(document));
    chosen_.clear();
    bytes_ = 0;
  }

 private:
  using Key = std::pair<std::uint64_t, std::string>;
  std::uint64_t seed_, limit_, bytes_ = 0;
  std::map<Key, Document> chosen_;
  /// The first that was one too many; nothing from there on is taken.
  Key end_ = {~std::uint64_t{0}, std::string()};
};

}  // namespace penstock
