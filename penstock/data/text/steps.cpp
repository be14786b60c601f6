#include "penstock/data/text/steps.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/data/text/printable_bytes.h"

namespace penstock {
namespace {

/// A part of a piece, and whether the pattern matched it.
struct Part {
  std::size_t begin, end;
  bool match;
};

/// Cuts the text into the matches and the parts between them.
std::vector<Part> parts_of(std::string_view text, const Pattern& pattern, bool inverted) {
  std::vector<Part> parts;
  std::size_t done = 0;
  pattern.for_each_match(text, [&](std::size_t begin, std::size_t end) {
    if (begin > done) parts.push_back({done, begin, inverted});
    parts.push_back({begin, end, !inverted});
    done = end;
  });
  if (done < text.size()) parts.push_back({done, text.size(), inverted});
  return parts;
}

/// Joins each match to the part before it, or with `next` to the part after it, unless that part is
/// a match too.
std::vector<Part> joined_matches(const std::vector<Part>& parts, bool next) {
  std::vector<Part> out;
  bool after_match = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[next ? parts.size() - 1 - i : i];
    if (part.match && !after_match && !out.empty())
      (next ? out.back().begin : out.back().end) = next ? part.begin : part.end;
    else
      out.push_back(part);
    after_match = part.match;
  }
  if (next) std::ranges::reverse(out);
  return out;
}

std::vector<Part> cut(std::vector<Part> parts, SplitBehaviour behaviour) {
  switch (behaviour) {
    case SplitBehaviour::kIsolated:
      return parts;
    case SplitBehaviour::kRemoved:
      std::erase_if(parts, [](const Part& part) { return part.match; });
      return parts;
    case SplitBehaviour::kMergedWithPrevious:
      return joined_matches(parts, false);
    case SplitBehaviour::kMergedWithNext:
      return joined_matches(parts, true);
    case SplitBehaviour::kContiguous:
      break;
  }
  std::vector<Part> out;
  for (const Part& part : parts)
    if (!out.empty() && out.back().match == part.match)
      out.back().end = part.end;
    else
      out.push_back(part);
  return out;
}

/// Replaces each piece by a function of it.
template <class Function>
class EachStep : public TextStep {
 public:
  explicit EachStep(Function function) : function_(std::move(function)) {}
  void apply(std::vector<std::string>& pieces, bool) const override {
    for (std::string& piece : pieces)
      if (!piece.empty()) piece = function_(std::move(piece));
  }

 private:
  Function function_;
};

template <class Function>
std::shared_ptr<const TextStep> each_step(Function function) {
  return std::make_shared<EachStep<Function>>(std::move(function));
}

class SplitStep : public TextStep {
 public:
  SplitStep(std::shared_ptr<const Pattern> pattern, SplitBehaviour behaviour, bool inverted)
      : pattern_(std::move(pattern)), behaviour_(behaviour), inverted_(inverted) {}

  void apply(std::vector<std::string>& pieces, bool) const override {
    std::vector<std::string> out;
    for (const std::string& piece : pieces)
      for (const Part& part : cut(parts_of(piece, *pattern_, inverted_), behaviour_))
        out.push_back(piece.substr(part.begin, part.end - part.begin));
    pieces = std::move(out);
  }

 private:
  std::shared_ptr<const Pattern> pattern_;
  SplitBehaviour behaviour_;
  bool inverted_;
};

class MetaspaceStep : public TextStep {
 public:
  MetaspaceStep(std::string mark, MarkBegin begin, bool cut)
      : mark_(std::move(mark)),
        begin_(begin),
        cut_(std::make_shared<const Pattern>(mark_, true), SplitBehaviour::kMergedWithNext, false),
        cuts_(cut) {}

  void apply(std::vector<std::string>& pieces, bool begins_text) const override {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      std::string& piece = pieces[i];
      if (piece.empty()) continue;
      piece = replaced(piece, " ", mark_);
      const bool marks =
          begin_ == MarkBegin::kAlways || (begin_ == MarkBegin::kFirst && begins_text && i == 0);
      if (marks && !piece.starts_with(mark_)) piece.insert(0, mark_);
    }
    if (cuts_) cut_.apply(pieces, begins_text);
  }

 private:
  std::string mark_;
  MarkBegin begin_;
  SplitStep cut_;
  bool cuts_;
};

class ByteNamesStep : public TextStep {
 public:
  explicit ByteNamesStep(std::shared_ptr<const TextStep> step)
      : step_(std::move(step)), names_(printable_bytes()) {
    for (std::size_t byte = 0; byte < names_.size(); ++byte)
      bytes_[names_[byte]] = static_cast<char>(byte);
  }

  void apply(std::vector<std::string>& pieces, bool begins_text) const override {
    for (std::string& piece : pieces) {
      std::string named;
      for (const char c : piece) named += names_[static_cast<unsigned char>(c)];
      piece = std::move(named);
    }
    step_->apply(pieces, begins_text);
    for (std::string& piece : pieces) {
      std::string raw;
      for (std::string_view rest = piece; !rest.empty();) {
        const std::size_t length = character_bytes(rest);
        raw += bytes_.at(std::string(rest.substr(0, length)));
        rest.remove_prefix(length);
      }
      piece = std::move(raw);
    }
  }

 private:
  std::shared_ptr<const TextStep> step_;
  std::array<std::string, 256> names_;
  std::unordered_map<std::string, char> bytes_;
};

void check_insertion(const std::string& text) {
  PENSTOCK_CHECK(text.size() <= kLongestInsertion, "a step that puts in '", text.substr(0, 60),
                 "...', more than ", kLongestInsertion, " bytes, is not implemented");
}

std::size_t bytes_in(const std::vector<std::string>& pieces) {
  std::size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  return bytes;
}

}  // namespace

void apply(const TextSteps& steps, std::vector<std::string>& pieces, bool begins_text) {
  if (steps.empty()) return;
  // A chain of steps that each double the text would exhaust the memory.
  const std::size_t most = 64 * bytes_in(pieces) + (std::size_t{64} << 10);
  for (const auto& step : steps) {
    step->apply(pieces, begins_text);
    PENSTOCK_CHECK(bytes_in(pieces) <= most, "the tokenizer's steps blow the text up");
  }
}

std::shared_ptr<const TextStep> normal_form_step(NormalForm form) {
  return each_step([form](std::string piece) { return normal_form(piece, form); });
}

std::shared_ptr<const TextStep> prepend_step(std::string prefix) {
  check_insertion(prefix);
  return each_step([prefix](std::string piece) { return prefix + piece; });
}

std::shared_ptr<const TextStep> prefix_space_step() {
  return each_step([](std::string piece) { return piece.starts_with(' ') ? piece : ' ' + piece; });
}

std::shared_ptr<const TextStep> replace_step(std::shared_ptr<const Pattern> pattern,
                                             std::string content) {
  check_insertion(content);
  return each_step([pattern, content](std::string piece) {
    std::string out;
    std::size_t done = 0;
    pattern->for_each_match(piece, [&](std::size_t begin, std::size_t end) {
      out.append(piece, done, begin - done).append(content);
      done = end;
    });
    return out.append(piece, done);
  });
}

std::shared_ptr<const TextStep> split_step(std::shared_ptr<const Pattern> pattern,
                                           SplitBehaviour behaviour, bool inverted) {
  return std::make_shared<SplitStep>(std::move(pattern), behaviour, inverted);
}

std::shared_ptr<const TextStep> isolating_step(const std::string& pattern) {
  return split_step(std::make_shared<Pattern>(pattern), SplitBehaviour::kIsolated, false);
}

std::shared_ptr<const TextStep> byte_names_step(std::shared_ptr<const TextStep> step) {
  return std::make_shared<ByteNamesStep>(std::move(step));
}

std::shared_ptr<const TextStep> metaspace_step(std::string mark, MarkBegin begin, bool cut) {
  check_insertion(mark);
  PENSTOCK_CHECK(!mark.empty(), "Metaspace needs a replacement for spaces");
  return std::make_shared<MetaspaceStep>(std::move(mark), begin, cut);
}

}  // namespace penstock
