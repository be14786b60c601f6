#include "penstock/cli/arguments/token_ids.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/parse_number.h"

namespace penstock {
namespace {

constexpr std::size_t kMostTokenBytes = std::size_t{64} << 20;
constexpr std::string_view kWhite = " \t\r\n\v\f";

std::vector<std::int64_t> ids_of_json(const std::string& text, const std::string& path) {
  const auto array = nlohmann::json::parse(text, nullptr, false);
  PENSTOCK_CHECK(array.is_array(), path, ": is not a JSON array of token ids");
  PENSTOCK_CHECK(!array.empty(), path, ": holds no token ids");
  std::vector<std::int64_t> out;
  for (const auto& item : array) {
    // A number beyond 63 bits is unsigned, and would be read as another one.
    const bool fits =
        !item.is_number_unsigned() || std::in_range<std::int64_t>(item.get<std::uint64_t>());
    PENSTOCK_CHECK(item.is_number_integer() && fits, path, ": entry ", out.size(),
                   " of its array is no token id");
    out.push_back(item.get<std::int64_t>());
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> read_token_ids(const std::string& path) {
  const std::string text = real_file_system().read(path, kMostTokenBytes);
  const auto first = text.find_first_not_of(kWhite);
  PENSTOCK_CHECK(first != std::string::npos, path, ": holds no token ids");
  if (text[first] == '[') return ids_of_json(text, path);
  std::vector<std::int64_t> out;
  for (auto at = first; at != std::string::npos; at = text.find_first_not_of(kWhite, at)) {
    const auto end = std::min(text.find_first_of(kWhite, at), text.size());
    const auto id = parse_number<std::int64_t>(std::string_view(text).substr(at, end - at));
    PENSTOCK_CHECK(id, path, ": '", text.substr(at, std::min<std::size_t>(end - at, 40)),
                   "' is no token id; ids are whole numbers with white space between them, or one "
                   "JSON array");
    out.push_back(*id);
    at = end;
  }
  return out;
}

}  // namespace penstock
