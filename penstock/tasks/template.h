// Templates of tasks: text with {{expressions}} that are filled from a row. An expression is a path
// of fields and filters: {{question}}, {{choices.text}}, {{choices.text.0}},
// {{sentence | after('_') | strip}}. It is not a programming language: it has no loops and no
// conditions. Rows that need those go through a preparation (prepare.h).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/tasks/filters.h"

namespace penstock::tasks {

/// One row of a data file, with its fields in the file's order.
using Row = nlohmann::ordered_json;

class Template {
 public:
  Template() = default;
  /// Errors of this template begin with `origin` ("task.toml:7: context"). Throws Error for a brace
  /// that is not closed, an unknown filter (with the nearest name) or wrong arguments.
  Template(const std::string& text, std::string origin);

  /// Whether the task's file leaves this template out.
  bool empty() const { return parts_.empty() && !given_; }
  /// Fills the template. Throws Error for a field that the row lacks, with the fields that it has,
  /// and for a value that is not text.
  std::string text(const Row& row) const;
  /// The value, of any type, of a template that is one expression; otherwise the filled text.
  Row value(const Row& row) const;

 private:
  struct Part {
    std::string literal;  ///< used if `path` is empty
    std::vector<std::string> path;
    std::vector<FilterCall> filters;
  };
  Part expression(std::string_view text) const;
  Row evaluate(const Part& part, const Row& row) const;

  std::string origin_;
  bool given_ = false;
  std::vector<Part> parts_;
};

/// The row's fields in their order: "question, choices, answer".
std::string field_names(const Row& row);
/// The value at a path of table keys and list indices. A key applied to a list of tables gives the
/// list of each table's value. Throws Error that names the missing field and the existing ones.
Row at_path(const Row& row, const std::vector<std::string>& path);
/// Splits a path such as "a.b.0" into its parts.
std::vector<std::string> split_path(std::string_view text);

}  // namespace penstock::tasks
