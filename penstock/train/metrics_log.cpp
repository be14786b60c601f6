#include "penstock/train/metrics_log.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/base/atomic_files.h"
#include "penstock/base/json_text.h"
#include "penstock/base/lines.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

std::optional<std::int64_t> step_of(const Json& line) {
  if (!line.is_object()) return {};
  const auto found = line.find("step");
  if (found == line.end() || !found->is_number_integer()) return {};
  return found->get<std::int64_t>();
}

/// Parses a line and leaves out its "load". With many layers and experts loads are nearly all of a
/// log, and parsed they would take many times the memory of its text.
Json parsed_without_load(std::string_view line) {
  const auto keeps = [](int depth, Json::parse_event_t event, const Json& value) {
    return depth != 1 || event != Json::parse_event_t::key || value != "load";
  };
  return Json::parse(line, keeps, false);
}

/// Calls visit(line, step, value) for each whole line that is an object with a step. The value has
/// no "load".
template <class Visit>
void for_each_step(std::string_view text, Visit visit) {
  for_each_line(text, [&](std::string_view line, std::size_t) {
    if (!line.ends_with('\n')) return;  // a kill cut the write short
    Json value = parsed_without_load(line);
    if (const auto step = step_of(value)) visit(line, *step, std::move(value));
  });
}

/// Adds the steps from `first` to `last` to the list, if there are any.
void add_range(std::string& list, std::int64_t first, std::int64_t last) {
  if (first > last) return;
  list += concat(list.empty() ? "" : ", ", first);
  if (first < last) list += concat("-", last);
}

constexpr std::uint64_t kLargestLog = std::uint64_t{1} << 40;

}  // namespace

MetricsLog::MetricsLog(FileSystem& fs, std::filesystem::path path, std::int64_t resume_step)
    : path_(std::move(path)), last_step_(std::numeric_limits<std::int64_t>::min()) {
  const auto parent = parent_directory(path_);
  create_directories(fs, parent);
  const bool existed = fs.exists(path_);
  if (existed) {
    const std::string text = fs.read(path_, kLargestLog);
    std::string kept;
    for_each_step(text, [&](std::string_view line, std::int64_t step, const Json&) {
      if (step > resume_step || step <= last_step_) return;
      kept += line;
      add_range(missing_, std::max<std::int64_t>(last_step_, 0) + 1, step - 1);
      last_step_ = step;
    });
    if (kept != text) write_file_atomically(fs, path_, kept);
  }
  add_range(missing_, std::max<std::int64_t>(last_step_, 0) + 1, resume_step);
  file_ = fs.open(path_, OpenMode::kAppend);
  if (!existed) fs.sync_directory(parent);
}

void MetricsLog::append(const Json& line) {
  const auto step = step_of(line);
  PENSTOCK_ASSERT(step, "a line of metrics without a step");
  PENSTOCK_ASSERT(*step > last_step_, "step ", *step, " after step ", last_step_);
  // Unbuffered and in one piece. Names from outside may hold bytes that are not UTF-8.
  file_->write(bytes_of(json_text(line) + "\n"));
  last_step_ = *step;
}

void MetricsLog::sync() { file_->sync(); }

std::vector<Json> read_metrics(FileSystem& fs, const std::filesystem::path& path) {
  std::vector<Json> out;
  if (!fs.exists(path)) return out;
  const std::string text = fs.read(path, kLargestLog);
  for_each_step(
      text, [&](std::string_view, std::int64_t, Json value) { out.push_back(std::move(value)); });
  return out;
}

}  // namespace penstock
