#include "penstock/data/packages/man_text.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "penstock/base/lines.h"
#include "penstock/data/packages/roff_escapes.h"

namespace penstock {
namespace {

/// The macro's arguments: words, or text between quotes ('""' within quotes is a quote).
std::vector<std::string> arguments_of(std::string_view line) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] == ' ' || line[at] == '\t') {
      ++at;
      continue;
    }
    std::string word;
    const bool quoted = line[at] == '"';
    for (at += quoted; at < line.size(); ++at) {
      const char c = line[at];
      if (quoted && c == '"') {
        if (at + 1 == line.size() || line[at + 1] != '"') break;
        ++at;
      } else if (!quoted && (c == ' ' || c == '\t')) {
        break;
      } else if (c == '\\' && at + 1 < line.size()) {
        word += line[at++];  // an escaped space does not end the word
      }
      word += line[at];
    }
    at += quoted;
    out.push_back(std::move(word));
  }
  return out;
}

template <std::size_t n>
bool is_one_of(std::string_view name, const std::array<std::string_view, n>& names) {
  return std::ranges::find(names, name) != names.end();
}

class Page {
 public:
  std::string read(std::string_view page) {
    for_each_line(page, [&](std::string_view content, std::size_t) {
      while (!content.empty() && (content.back() == '\n' || content.back() == '\r'))
        content.remove_suffix(1);
      if (!foreign_) line(content);
    });
    return foreign_ ? std::string() : std::move(out_);
  }

 private:
  void line(std::string_view content) {
    if (!until_.empty()) {
      if (content.starts_with(until_)) until_ = {};
      return;
    }
    if (!content.starts_with('.') && !content.starts_with('\'')) return text(roff_text(content));
    content.remove_prefix(1);
    while (content.starts_with(' ')) content.remove_prefix(1);
    const std::size_t end = std::min(content.find_first_of(" \t"), content.size());
    macro(content.substr(0, end), content.substr(end));
  }

  void macro(std::string_view name, std::string_view rest) {
    constexpr std::array<std::string_view, 6> headings = {"SH", "SS", "UR", "MT", "B", "I"};
    constexpr std::array<std::string_view, 8> joined = {"BR", "RB", "BI", "IB",
                                                        "IR", "RI", "SM", "SB"};
    constexpr std::array<std::string_view, 9> breaks = {"PP", "P",  "LP", "TP", "TQ",
                                                        "HP", "sp", "RS", "RE"};
    if (name == "Dd" || name == "Dt" || name == "so") foreign_ = true;
    if (name == "TS") until_ = ".TE";
    if (name == "de" || name == "ig" || name == "de1" || name == "am") until_ = "..";
    const bool heading = name == "SH" || name == "SS";
    if (heading || name == "IP" || is_one_of(name, breaks)) paragraph();
    if (name == "IP") {
      // The first argument is a tag, the second an indentation.
      if (const auto words = arguments_of(rest); !words.empty()) text(roff_text(words[0]));
    } else if (is_one_of(name, headings) || is_one_of(name, joined)) {
      std::string all;
      for (const auto& word : arguments_of(rest)) {
        if (!all.empty() && is_one_of(name, headings)) all += ' ';
        all += word;
      }
      text(roff_text(all));
    }
    if (heading) paragraph();
  }

  void text(const std::string& content) {
    if (content.find_first_not_of(" \t") == content.npos) return paragraph();
    out_ += content;
    out_ += '\n';
  }
  void paragraph() {
    if (!out_.empty() && !out_.ends_with("\n\n")) out_ += '\n';
  }

  std::string out_;
  std::string_view until_;  // the line that ends a skipped part; empty outside such a part
  bool foreign_ = false;
};

}  // namespace

std::string man_text(std::string_view page) { return Page().read(page); }

}  // namespace penstock
