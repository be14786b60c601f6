#include "penstock/data/prepare/read_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/data/text_files.h"

namespace penstock {
namespace {

/// Whether reading the folder `folder` also reads `path`. Hidden files are not read. Both paths are
/// canonical.
bool lies_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const std::filesystem::path below = path.lexically_relative(folder);
  return !below.empty() && *below.begin() != ".." &&
         std::ranges::none_of(below, [](const std::filesystem::path& part) {
           return is_hidden_name(part.string());
         });
}

void check_inputs_are_apart(const std::vector<DataInput>& inputs) {
  std::vector<std::filesystem::path> paths;
  for (const DataInput& input : inputs) {
    const std::filesystem::path path = std::filesystem::weakly_canonical(input.path);
    for (std::size_t i = 0; i < paths.size(); ++i) {
      PENSTOCK_CHECK(paths[i] != path, "'", input.path,
                     "' is named twice: its text would stand in training and in held-out text");
      const bool first = lies_below(paths[i], path);
      PENSTOCK_CHECK(!first && !lies_below(path, paths[i]), "'",
                     first ? inputs[i].path : input.path, "' lies in '",
                     first ? input.path : inputs[i].path,
                     "', so its text would be read twice, and held-out text would stand in "
                     "training; move it out of that folder, or name the folder's parts");
    }
    paths.push_back(path);
  }
}

void check_separator(const std::string& separator, const std::vector<Document>& documents) {
  if (separator.empty() || separator == "blank-lines") return;
  PENSTOCK_CHECK(std::ranges::any_of(documents, &Document::separated), "no text holds '", separator,
                 "', which options.document_separator gives; check it or leave it out (a shell "
                 "writes a line break as $'\\n', and \"blank-lines\" divides at blank lines)");
}

}  // namespace

Document spooled(Document document, TextSpool& texts) {
  document.text = DocumentText::view_of(texts.keep(document.text));
  return document;
}

std::vector<Document> read_inputs(const std::vector<DataInput>& inputs, const ReadOptions& options,
                                  TextSpool& texts, StageProgress& progress) {
  check_inputs_are_apart(inputs);
  std::vector<Document> out;
  for (const DataInput& input : inputs) {
    progress.say(fmt::format("reading {}", input.path));
    const std::size_t before = out.size();
    std::size_t bytes = 0;
    for_each_document(input, options, [&](Document document) {
      bytes += document.text.size();
      out.push_back(spooled(std::move(document), texts));
      if (progress.due())
        progress.say(fmt::format("reading {}: {} MB of text", input.path, bytes / 1'000'000));
    });
    if (out.size() == before) fail_without_text(input);
  }
  check_separator(options.separator, out);
  return out;
}

}  // namespace penstock
