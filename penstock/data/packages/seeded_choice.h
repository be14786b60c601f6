// Chooses documents up to a number of bytes. The choice does not depend on the order in which the
// documents come, and only chosen documents are held in memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "penstock/data/corpus/documents.h"

namespace penstock {

/// The seed and the documents' names give a random order. Chooses the first documents of this
/// order, until the next one would exceed `bytes`. Memory: `bytes` of text, and one document.
class SeededChoice {
 public:
  SeededChoice(std::uint64_t seed, std::uint64_t bytes) : seed_(seed), limit_(bytes) {}

  /// @param name  identifies the document; the same names give the same choice
  void offer(const std::string& name, Document document);
  std::uint64_t bytes() const { return bytes_; }
  /// Calls visit(document) for each chosen document in the drawn order, and releases them.
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
  /// The first document that exceeded `bytes`; it and all later ones are not chosen.
  Key end_ = {~std::uint64_t{0}, std::string()};
};

}  // namespace penstock
