// Reads SST-2 as GLUE distributes it (Wang et al., 2018): tab-separated, with a header, without
// quoting.
#include <algorithm>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/lines.h"
#include "penstock/data/classification/checks.h"
#include "penstock/data/classification/readers.h"

namespace penstock {
namespace {

std::vector<std::string_view> tab_separated(std::string_view line) {
  std::vector<std::string_view> out;
  for (;;) {
    const auto tab = line.find('\t');
    out.push_back(line.substr(0, tab));
    if (tab == line.npos) return out;
    line.remove_prefix(tab + 1);
  }
}

std::size_t tsv_column(const std::vector<std::string_view>& header, std::string_view name,
                       const std::string& path) {
  const auto found = std::ranges::find(header, name);
  PENSTOCK_CHECK(found != header.end(), path, ":1: no column '", name,
                 "'; the first line should name sentence and label, divided by a tab (GLUE's "
                 "test.tsv has no labels: use dev.tsv)");
  return static_cast<std::size_t>(found - header.begin());
}

}  // namespace

ClassificationSet read_sst2(const std::string& path) {
  const std::string content = classification::read_single_file(path);
  ClassificationSet out{.class_names = {"negative", "positive"}};
  if (content.empty()) tsv_column({}, "sentence", path);  // throws: even the header is missing
  std::size_t columns = 0, sentence = 0, label = 0;
  for_each_line(content, [&](std::string_view line, std::size_t number) {
    const auto fields = tab_separated(without_line_end(line));
    if (number == 1) {
      columns = fields.size();
      sentence = tsv_column(fields, "sentence", path);
      label = tsv_column(fields, "label", path);
      return;
    }
    PENSTOCK_CHECK(fields.size() == columns, path, ":", number, ": ", fields.size(),
                   " columns where the header names ", columns);
    classification::check_text(fields[sentence], path, number);
    out.labels.push_back(classification::parse_label(fields[label], out.classes(), path, number));
    out.texts.emplace_back(fields[sentence]);
  });
  return out;
}

}  // namespace penstock
