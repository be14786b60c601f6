// Reads SST-5: the trees of the Stanford Sentiment Treebank (Socher et al., 2013), or label and
// text.
#include <algorithm>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/lines.h"
#include "penstock/data/classification/checks.h"
#include "penstock/data/classification/readers.h"

namespace penstock {
namespace {

constexpr int kSst5Classes = 5;

/// Reads one tree without recursion, since a file may nest trees to any depth.
class SentimentTree {
 public:
  SentimentTree(std::string_view line, const std::string& file, std::size_t number)
      : line_(line), file_(file), number_(number) {}

  /// Returns the leaves, joined by spaces, and the root's label.
  std::pair<std::string, int> read() {
    int depth = 0, root = -1;
    for (skip_spaces(); at_ < line_.size(); skip_spaces()) {
      if (line_[at_] == '(') {
        check(depth > 0 || root < 0, "a second tree begins");
        ++at_;
        skip_spaces();
        const int label = classification::parse_label(word(), kSst5Classes, file_, number_);
        if (depth++ == 0) root = label;
      } else if (line_[at_] == ')') {
        check(depth > 0, "a ')' too many");
        --depth;
        ++at_;
      } else {
        check(depth > 0, "text outside of the tree");
        if (!text_.empty()) text_ += ' ';
        text_ += word();
      }
    }
    check(depth == 0, "a ')' is missing (truncated?)");
    return {std::move(text_), root};
  }

 private:
  void check(bool condition, std::string_view what) const {
    PENSTOCK_CHECK(condition, file_, ":", number_, ": the tree is not balanced: ", what,
                   " at column ", at_ + 1);
  }
  void skip_spaces() {
    while (at_ < line_.size() && line_[at_] == ' ') ++at_;
  }
  std::string_view word() {
    const std::size_t end = std::min(line_.find_first_of(" ()", at_), line_.size());
    const auto out = line_.substr(at_, end - at_);
    at_ = end;
    return out;
  }

  std::string_view line_;
  const std::string& file_;
  std::size_t number_, at_ = 0;
  std::string text_;
};

std::pair<std::string, int> labelled_line(std::string_view line, const std::string& file,
                                          std::size_t number) {
  const auto space = line.find_first_of(" \t");
  PENSTOCK_CHECK(space != line.npos, file, ":", number,
                 ": neither a tree, as in (3 (2 It) (4 works)), nor a label and text");
  const int label = classification::parse_label(line.substr(0, space), kSst5Classes, file, number);
  return {std::string(line.substr(space + 1)), label};
}

}  // namespace

ClassificationSet read_sst5(const std::string& path) {
  const std::string content = classification::read_single_file(path);
  ClassificationSet out{
      .class_names = {"very negative", "negative", "neutral", "positive", "very positive"}};
  for_each_line(content, [&](std::string_view whole, std::size_t number) {
    const std::string_view line = without_line_end(whole);
    if (line.empty()) return;
    auto [text, label] = line.starts_with('(') ? SentimentTree(line, path, number).read()
                                               : labelled_line(line, path, number);
    classification::check_text(text, path, number);
    out.texts.push_back(std::move(text));
    out.labels.push_back(label);
  });
  return out;
}

}  // namespace penstock
