#include "penstock/tasks/filters.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/data/text/unicode.h"
#include "penstock/tasks/text.h"

namespace penstock::tasks {
namespace {

using Json = nlohmann::ordered_json;
using Arguments = std::vector<Json>;

std::string short_text(const Json& value) { return value.dump().substr(0, 60); }

const std::string& text_of(const Json& value) {
  PENSTOCK_CHECK(value.is_string(), "a text is wanted, and the value is ", short_text(value));
  return value.get_ref<const std::string&>();
}

/// A text that is sought in another. An empty one would be found at every place.
const std::string& mark_of(const Json& value) {
  const std::string& mark = text_of(value);
  PENSTOCK_CHECK(!mark.empty(), "a mark is empty; give the text to look for");
  return mark;
}

std::int64_t number_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number_integer()) return value.get<std::int64_t>();
  const std::string& text = text_of(value);
  PENSTOCK_CHECK(
      !text.empty() && text.size() < 18 && text.find_first_not_of("0123456789") == text.npos,
      "a whole number is wanted, and the value is ", short_text(value));
  return std::stoll(text);
}

/// Returns `at`, the position of `mark`. Throws Error if it is npos.
std::size_t place_of(const std::string& text, const std::string& mark, std::size_t at) {
  PENSTOCK_CHECK(at != text.npos, "there is no '", mark, "' in '", text.substr(0, 60), "'");
  return at;
}

std::string cut_between(std::string_view text, std::string_view open, std::string_view close) {
  std::string out;
  for (;;) {
    const std::size_t begin = text.find(open);
    const std::size_t end = begin == text.npos ? begin : text.find(close, begin + open.size());
    if (end == text.npos) return out += text;
    if (text.substr(begin, end - begin).find('\n') != text.npos) {  // a pair must be on one line
      out += text.substr(0, begin + open.size());
      text.remove_prefix(begin + open.size());
      continue;
    }
    out += text.substr(0, begin);
    text.remove_prefix(end + close.size());
  }
}

/// The text after the first `most` marks, or after the last mark if there are fewer.
std::string after_up_to(std::string text, const std::string& mark, std::int64_t most) {
  for (; most > 0; --most) {
    const std::size_t at = text.find(mark);
    if (at == text.npos) break;
    text.erase(0, at + mark.size());
  }
  return text;
}

Json index_in(const Json& value, const Json& list) {
  if (list.is_string()) {
    const std::size_t at = text_of(list).find(text_of(value));
    PENSTOCK_CHECK(!text_of(value).empty() && at != std::string::npos, short_text(value),
                   " is none of ", short_text(list));
    return at;
  }
  PENSTOCK_CHECK(list.is_array(), "index wants a list, and the argument is ", short_text(list));
  const auto found = std::ranges::find(list, value);
  PENSTOCK_CHECK(found != list.end(), short_text(value), " is none of ", short_text(list));
  return found - list.begin();
}

Json chosen_by(const Json& value, const Arguments& a) {
  for (std::size_t i = 0; i + 1 < a.size(); i += 2)
    if (a[i] == value) return a[i + 1];
  fail("map knows nothing for ", short_text(value));
}

std::vector<Filter> text_filters() {
  return {
      {"strip", 0, 0, true, "strip: without white space at both ends",
       [](const Json& v, const Arguments&) -> Json {
         return std::string(left_stripped(right_stripped(text_of(v))));
       }},
      {"lstrip", 0, 0, true, "lstrip: without white space at the start",
       [](const Json& v, const Arguments&) -> Json {
         return std::string(left_stripped(text_of(v)));
       }},
      {"capitalize", 0, 0, true, "capitalize: the first character large, all others small",
       [](const Json& v, const Arguments&) -> Json { return capitalized(text_of(v)); }},
      {"uncapitalize", 0, 0, true, "uncapitalize: the first character small",
       [](const Json& v, const Arguments&) -> Json { return uncapitalized(text_of(v)); }},
      {"prepend", 1, 1, true, "prepend(TEXT): that text before the value",
       [](const Json& v, const Arguments& a) -> Json { return text_of(a[0]) + text_of(v); }},
      {"replace", 2, 2, true, "replace(OLD, NEW): every OLD becomes NEW",
       [](const Json& v, const Arguments& a) -> Json {
         return replaced(text_of(v), text_of(a[0]), text_of(a[1]));
       }},
      {"cut", 2, 2, true, "cut(OPEN, CLOSE): without what stands between the marks on one line",
       [](const Json& v, const Arguments& a) -> Json {
         return cut_between(text_of(v), mark_of(a[0]), mark_of(a[1]));
       }},
      {"drop_last", 1, 1, true, "drop_last(N): without the last N characters",
       [](const Json& v, const Arguments& a) -> Json {
         return std::string(without_last(text_of(v), static_cast<std::size_t>(number_of(a[0]))));
       }},
      {"before", 1, 1, true, "before(MARK): what stands before the first mark, which there must be",
       [](const Json& v, const Arguments& a) -> Json {
         const std::string &text = text_of(v), &mark = mark_of(a[0]);
         return text.substr(0, place_of(text, mark, text.find(mark)));
       }},
      {"after", 1, 1, true, "after(MARK): what follows the first mark, which there must be",
       [](const Json& v, const Arguments& a) -> Json {
         const std::string &text = text_of(v), &mark = mark_of(a[0]);
         return text.substr(place_of(text, mark, text.find(mark)) + mark.size());
       }},
      {"before_last", 1, 1, true, "before_last(MARK): what stands before the last mark",
       [](const Json& v, const Arguments& a) -> Json {
         const std::string &text = text_of(v), &mark = mark_of(a[0]);
         return text.substr(0, place_of(text, mark, text.rfind(mark)));
       }},
      {"after_last", 1, 1, true, "after_last(MARK): what follows the last mark",
       [](const Json& v, const Arguments& a) -> Json {
         const std::string &text = text_of(v), &mark = mark_of(a[0]);
         return text.substr(place_of(text, mark, text.rfind(mark)) + mark.size());
       }},
      {"after_up_to", 2, 2, true, "after_up_to(MARK, N): what follows the first N marks, or fewer",
       [](const Json& v, const Arguments& a) -> Json {
         return after_up_to(text_of(v), mark_of(a[0]), number_of(a[1]));
       }},
  };
}

std::vector<Filter> other_filters() {
  return {
      {"int", 0, 0, false, "int: a number of false, true or digits",
       [](const Json& v, const Arguments&) -> Json { return number_of(v); }},
      {"minus", 1, 1, false, "minus(N): the number less N",
       [](const Json& v, const Arguments& a) -> Json { return number_of(v) - number_of(a[0]); }},
      {"index", 1, 1, false, "index(LIST): the value's place, from 0, in a list or text",
       [](const Json& v, const Arguments& a) -> Json { return index_in(v, a[0]); }},
      {"map", 2, 16, false, "map(A, B, ...): B where the value is A, and so on",
       [](const Json& v, const Arguments& a) -> Json { return chosen_by(v, a); }},
      {"count", 0, 0, false, "count: how many values a list has",
       [](const Json& v, const Arguments&) -> Json {
         PENSTOCK_CHECK(v.is_array(), "count wants a list, and the value is ", short_text(v));
         return v.size();
       }},
      {"is", 1, 1, false, "is(VALUE): whether it is that value",
       [](const Json& v, const Arguments& a) -> Json { return v == a[0]; }},
      {"starts_with", 1, 1, false, "starts_with(TEXT): whether it begins so",
       [](const Json& v, const Arguments& a) -> Json {
         return text_of(v).starts_with(text_of(a[0]));
       }},
  };
}

}  // namespace

const std::vector<Filter>& all_filters() {
  static const std::vector<Filter> filters = [] {
    std::vector<Filter> out = text_filters();
    std::ranges::move(other_filters(), std::back_inserter(out));
    return out;
  }();
  return filters;
}

const Filter& find_filter(std::string_view name) {
  std::vector<std::string> names;
  for (const Filter& filter : all_filters()) {
    if (filter.name == name) return filter;
    names.emplace_back(filter.name);
  }
  const std::string nearest = nearest_name(name, names);
  fail("there is no filter '", name, "'",
       nearest.empty() ? std::string() : "; did you mean '" + nearest + "'?");
}

Json apply_filter(const Filter& filter, const Json& value, const Arguments& arguments) {
  if (!filter.of_text || !value.is_array()) return filter.apply(value, arguments);
  Json out = Json::array();
  for (const Json& one : value) out.push_back(filter.apply(one, arguments));
  return out;
}

}  // namespace penstock::tasks
