// Items: what a task asks of a model about one row, as texts. How texts become tokens is encode.h.
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
  std::string where;  ///< its file and line
  std::vector<TextRequest> requests;
  /// Length of each choice without the delimiter; acc_norm and acc_bytes divide by it.
  std::vector<double> characters, bytes;
  int gold = -1;                     ///< -1: the task has none
  std::vector<std::string> answers;  ///< known ones, of tasks that generate

  std::size_t choices() const { return requests.size(); }
};

struct ItemOptions {
  std::size_t limit = 0;  ///< the first so many items; 0: all
};

/// Few-shot examples before each item.
struct Shots {
  std::size_t count = 0;
  std::uint64_t seed = 1234;  ///< lm-eval's own
};

struct Items {
  std::vector<Item> items;
  Shots shots = {};
  std::size_t left_out = 0;  ///< rows that the form's `where` leaves out
};

/// The items of the rows, in their order. Throws Error with file, line and key for a row that fits
/// no form, a field that is missing, fewer than two choices, an empty choice, and an answer that is
/// none of the choices; and where no row is left.
Items make_items(const Task& task, std::span<const SourceRow> rows,
                 const ItemOptions& options = {});

}  // namespace penstock::tasks
