// Items: the texts with which a task asks a model about one row. encode.h turns the texts into
// tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "penstock/tasks/rows.h"

namespace penstock::tasks {

struct TextRequest {
  std::string context, continuation;  ///< the delimiter belongs to the continuation
  bool operator==(const TextRequest&) const = default;
};

struct Item {
  Row doc;            ///< the row as it was read
  std::string where;  ///< the row's file and line
  std::vector<TextRequest> requests;
  /// Length of each choice without the delimiter; acc_norm and acc_bytes divide by it.
  std::vector<double> characters, bytes;
  int gold = -1;                     ///< index of the right choice; -1: the task has none
  std::vector<std::string> answers;  ///< the known answers, for tasks that generate

  std::size_t choices() const { return requests.size(); }
};

struct ItemOptions {
  std::size_t limit = 0;  ///< number of items, from the first; 0: all
};

/// Few-shot examples before each item.
struct Shots {
  std::size_t count = 0;
  std::uint64_t seed = 1234;  ///< lm-eval's default
};

struct Items {
  std::vector<Item> items;
  Shots shots = {};
  std::size_t left_out = 0;  ///< rows that the form's `where` leaves out
};

/// Makes the rows' items, in the rows' order. Throws Error with file, line and key for a row that
/// fits no form, a missing field, fewer than two choices, an empty choice, and an answer that is
/// not among the choices. Throws Error if no row is left.
Items make_items(const Task& task, std::span<const SourceRow> rows,
                 const ItemOptions& options = {});

}  // namespace penstock::tasks
