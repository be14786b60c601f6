#include "penstock/tasks/answer_log.h"

#include <fmt/format.h>

#include <filesystem>

#include "penstock/base/checksum.h"
#include "penstock/base/error.h"
#include "penstock/base/json_error.h"

namespace penstock::tasks {
namespace {

constexpr std::size_t kSumDigits = 16;

/// A line of the log: the checksum of its JSON, a space, the JSON.
std::string line_of(const Row& value) {
  const std::string text = value.dump();
  return fmt::format("{:016x} {}\n", xxh64(bytes_of(text)), text);
}

Row head_of(const std::vector<AskedTask>& asked) {
  Row out{{"answers", "penstock 1"}, {"asked", Row::array()}};
  for (const AskedTask& one : asked)
    out["asked"].push_back({{"model", one.model},
                            {"task", one.task},
                            {"protocol", one.protocol},
                            {"requests", one.requests}});
  return out;
}

/// The JSON of a line without its newline, or null if the line is damaged.
Row value_of(std::string_view line) {
  if (line.size() <= kSumDigits || line[kSumDigits] != ' ') return nullptr;
  const std::string_view text = line.substr(kSumDigits + 1);
  if (line.substr(0, kSumDigits) != fmt::format("{:016x}", xxh64(bytes_of(text)))) return nullptr;
  Row out = Row::parse(text, nullptr, false);
  return out.is_discarded() ? Row(nullptr) : out;
}

/// Whether the text is only the first line of a log, of any evaluation.
bool holds_no_answers(const std::string& text) {
  return text.find('\n') + 1 == text.size() &&
         value_of(std::string_view(text).substr(0, text.find('\n'))).is_object();
}

/// Describes how the file's first line differs from that of this evaluation.
std::string difference(const Row& theirs, const Row& mine) {
  const auto& a = theirs.value("asked", Row::array());
  const auto& b = mine.at("asked");
  if (!a.is_array() || a.size() != b.size()) return "other tasks or models";
  for (std::size_t i = 0; i < b.size(); ++i)
    for (const auto& [key, value] : b[i].items()) {
      if (a[i].is_object() && a[i].value(key, Row()) == value) continue;
      if (key == "model") return "another model, or another number of experts per token";
      return key == "requests" ? concat("other requests of ", b[i]["task"].get<std::string>(),
                                        " (data, window, tokenizer or few-shot examples)")
                               : "another " + key;
    }
  return "another version of this file";
}

}  // namespace

AnswerLog::AnswerLog(std::string path, const std::vector<AskedTask>& asked)
    : path_(std::move(path)), lock_(path_) {
  FileSystem& fs = real_file_system();
  const std::string head = line_of(head_of(asked));
  std::string text = fs.read(path_, std::uint64_t{1} << 34);
  if (holds_no_answers(text)) text.clear();
  const std::size_t kept = read(text, head);
  taken_up_ = answers_.size();
  PENSTOCK_CHECK(kept > 0 || head.starts_with(text), "'", path_,
                 "' is there already and keeps no answers; remove it, or write to another");
  // The file itself is locked, so it is truncated, not replaced.
  if (kept < fs.size(path_)) std::filesystem::resize_file(path_, kept);
  file_ = fs.open(path_, OpenMode::kAppend);
  if (kept > 0) return;
  unwritten_ = head;
  sync();
}

std::size_t AnswerLog::read(const std::string& text, const std::string& head) {
  std::size_t begin = 0;
  for (std::size_t number = 1;; ++number) {
    const std::size_t end = text.find('\n', begin);
    if (end == text.npos) return begin;
    const std::string where = concat("'", path_, "', line ", number);
    const Row value = value_of(std::string_view(text).substr(begin, end - begin));
    PENSTOCK_CHECK(value.is_object(), where,
                   ": is damaged, or no line of kept answers; remove the file to begin anew");
    begin = end + 1;
    if (number > 1) {
      take(value, where);
    } else if (text.compare(0, begin, head) != 0) {
      fail("'", path_, "' keeps the answers of another evaluation: ",
           difference(value, Row::parse(head.substr(kSumDigits + 1))),
           "; finish that one, remove the file, or write to another");
    }
  }
}

void AnswerLog::take(const Row& line, const std::string& where) {
  try {
    Answer answer{.generated = line.value("generated", "")};
    for (const Row& score : line.value("scores", Row::array()))
      answer.scores.push_back(
          {.loglikelihood = score.at(0).get<double>(), .greedy = score.at(1).get<bool>()});
    answers_[{line.at("asked").get<std::size_t>(), line.at("item").get<std::size_t>()}] =
        std::move(answer);
  } catch (const nlohmann::json::exception& error) {
    fail(where, ": is no answer (", json_error_text(error), "); remove the file to begin anew");
  }
}

const Answer* AnswerLog::find(std::size_t place, std::size_t item) const {
  const auto found = answers_.find({place, item});
  return found == answers_.end() ? nullptr : &found->second;
}

void AnswerLog::add(std::size_t place, std::size_t item, Answer answer) {
  Row line{{"asked", place}, {"item", item}};
  if (answer.scores.empty()) line["generated"] = answer.generated;
  for (const RequestScore& score : answer.scores)
    line["scores"].push_back({score.loglikelihood, score.greedy});
  unwritten_ += line_of(line);
  answers_[{place, item}] = std::move(answer);
}

void AnswerLog::sync() {
  file_->write(bytes_of(unwritten_));
  file_->sync();
  unwritten_.clear();
}

void AnswerLog::remove() {
  file_ = nullptr;
  real_file_system().remove_all(path_);
}

}  // namespace penstock::tasks
