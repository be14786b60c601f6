// Templates of tasks: text with {{expressions}} that are filled from a row. An expression is a path
// of fields and filters: {{question}}, {{choices.text}}, {{choices.text.0}},
// {{sentence | after('_') | strip}}. Not a programming language: no loops, no conditions. What
// needs those is a preparation (prepare.h).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/tasks/filters.h"

namespace penstock::tasks {

/// One row of a data file, in its own order of fields.
using Row = nlohmann::ordered_json;

class Template {
 public:
  Template() = default;
  /// `origin` ("task.toml:7: context") opens the errors of this template. Throws Error for a brace
  /// that is not closed, an unknown filter (naming the nearest) or wrong arguments.
  Template(const std::string& text, std::string origin);

  /// Whether it was left out.
  bool empty() const { return parts_.empty() && !given_; }
  /// The filled text. Throws Error for a field that the row lacks, naming those that it has, and
  /// for a value that is no text.
  std::string text(const Row& row) const;
  /// The value of a template that is one expression, whatever its type; the text of any other.
  Row value(const Row& row) const;

 private:
  struct Part {
    std::string literal;  ///< where `path` is empty
    std::vector<std::string> path;
    std::vector<FilterCall> filters;
  };
  Part expression(std::string_view text) const;
  Row evaluate(const Part& part, const Row& row) const;

  std::string origin_;
  bool given_ = false;
  std::vector<Part> parts_;
};

/// The value at a path: keys of tables, places in lists; a key of a list of tables is that of each.
/// Throws Error that names the missing field and those that are there.
Row at_path(const Row& row, const std::vector<std::string>& path);
/// "a.b.0" in parts.
std::vector<std::string> split_path(std::string_view text);

}  // namespace penstock::tasks
