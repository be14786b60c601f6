#include "penstock/tasks/rows.h"

#include <filesystem>
#include <span>

#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/base/json_error.h"
#include "penstock/base/lines.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/data/classification/checks.h"
#include "penstock/data/sha.h"
#include "penstock/data/text/unicode.h"
#include "penstock/data/text_files.h"

namespace penstock::tasks {
namespace {

namespace fs = std::filesystem;

/// The limit on the depth of a row's values, which is above that of any data set. Recursive
/// functions need it.
constexpr int kDeepestRow = 64;

Row parse_json(std::string_view text, const std::string& where) {
  const auto check_depth = [&](int depth, auto, const Row&) {
    PENSTOCK_CHECK(depth <= kDeepestRow, where, ": its lists and tables are nested deeper than ",
                   kDeepestRow);
    return true;
  };
  try {
    return Row::parse(text, check_depth);
  } catch (const nlohmann::json::exception& error) {
    fail(where, ": this is no JSON (", json_error_text(error),
         "); the file is to hold one object a line");
  }
}

std::vector<SourceRow> rows_of_list(std::string_view text, const std::string& path) {
  std::vector<SourceRow> out;
  Row list = parse_json(text, path);
  PENSTOCK_CHECK(list.is_array(), path, ": begins as a list and is none");
  for (Row& row : list) {
    out.push_back({.where = concat(path, ", item ", out.size() + 1)});
    PENSTOCK_CHECK(row.is_object(), out.back().where, ": is no JSON object");
    out.back().row = std::move(row);
  }
  return out;
}

void add_labels(std::vector<SourceRow>& rows, const std::string& path) {
  std::size_t count = 0;
  for_each_line(classification::read_single_file(path), [&](std::string_view line, std::size_t) {
    const std::string_view label = without_line_end(line);
    if (label.empty()) return;
    if (count < rows.size()) rows[count].row["label"] = std::string(label);
    ++count;
  });
  PENSTOCK_CHECK(count == rows.size(), path, ": has ", count, " labels for ", rows.size(),
                 " rows: they belong to another file");
}

/// The path of the first of the files that the folder has, plain or with the suffix .gz; "" for
/// none.
std::string first_there(const std::vector<std::string>& files, const std::string& directory) {
  for (const std::string& file : files)
    for (const char* packed : {"", ".gz"}) {
      const fs::path path = fs::path(directory) / (file + packed);
      if (fs::is_regular_file(path)) return path.string();
    }
  return {};
}

std::string find_file(const Task& task, const std::vector<std::string>& files,
                      const std::string& directory, const char* what) {
  PENSTOCK_CHECK(fs::is_directory(directory), "the folder of task data '", directory,
                 "' does not exist", how_to_fetch(task, directory));
  if (std::string path = first_there(files, directory); !path.empty()) return path;
  fail("task ", task.name, ": ", what, " not in ", directory, "; looked for ", joined(files),
       " (each also with .gz)", how_to_fetch(task, directory));
}

}  // namespace

std::string how_to_fetch(const Task& task, const std::string& directory) {
  if (task.data_sets.empty()) return {};
  return concat("; to get it: `penstock data fetch --out ", shell_quoted(directory), " ", task.name,
                "`");
}

std::string data_folder(const Task& task, const std::string& directory) {
  const fs::path parent = fs::path(task.origin).parent_path();
  const std::string beside = parent.empty() ? "." : parent.string();
  const bool elsewhere = !directory.empty() && (!first_there(task.files, directory).empty() ||
                                                first_there(task.files, beside).empty());
  return elsewhere ? directory : beside;
}

std::string find_data(const Task& task, const std::string& directory) {
  return find_file(task, task.files, directory, "its data is");
}

std::string find_examples(const Task& task, const std::string& directory) {
  if (task.fewshot->files.empty()) return {};
  return find_file(task, task.fewshot->files, directory, "the rows of its few-shot examples are");
}

std::string labels_beside(const Task& task, const std::string& path) {
  if (task.labels.empty()) return {};
  const fs::path data = without_compression_suffix(path);
  const fs::path labels =
      data.parent_path() / replaced(task.labels, "{stem}", data.stem().string());
  return fs::is_regular_file(labels) ? labels.string() : std::string();
}

std::string data_sum(const Task& task, const std::string& directory, bool examples) {
  std::vector<std::string> files = {find_data(task, directory)};
  if (examples && task.fewshot) files.push_back(find_examples(task, directory));
  std::string sums;
  for (const std::string& file : files) {
    if (file.empty()) continue;
    sums += sha_of_file(file, ShaKind::kSha256);
    if (const std::string labels = labels_beside(task, file); !labels.empty())
      sums += sha_of_file(labels, ShaKind::kSha256);
  }
  return sha_of(std::as_bytes(std::span(sums)), ShaKind::kSha256);
}

SourceRow parse_row(std::string_view line, std::string where) {
  SourceRow out{.row = parse_json(line, where), .where = std::move(where)};
  PENSTOCK_CHECK(out.row.is_object(), out.where, ": is no JSON object");
  return out;
}

std::vector<SourceRow> read_rows(const std::string& path, const std::string& labels) {
  const std::string text = classification::read_single_file(path);
  std::vector<SourceRow> out;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != text.npos && text[first] == '[') {
    out = rows_of_list(text, path);
  } else {
    for_each_line(text, [&](std::string_view whole, std::size_t number) {
      const std::string_view line = without_line_end(whole);
      if (line.find_first_not_of(" \t") == line.npos) return;
      out.push_back(parse_row(line, concat(path, ":", number)));
    });
  }
  PENSTOCK_CHECK(!out.empty(), path, ": holds no rows");
  if (!labels.empty()) add_labels(out, labels);
  return out;
}

}  // namespace penstock::tasks
