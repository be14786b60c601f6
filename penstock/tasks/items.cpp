#include "penstock/tasks/items.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/tasks/prepare.h"
#include "penstock/tasks/text.h"

namespace penstock::tasks {
namespace {

bool has_path(const Row& row, const std::string& path) {
  const Row* at = &row;
  for (const std::string& key : split_path(path)) {
    if (!at->is_object()) return false;
    const auto found = at->find(key);
    if (found == at->end()) return false;
    at = &*found;
  }
  return true;
}

const Form& form_of(const Task& task, const Row& row) {
  for (const Form& form : task.forms)
    if (std::ranges::all_of(form.has, [&](const auto& path) { return has_path(row, path); }))
      return form;
  const auto braced = [](const Form& form) { return "{" + joined(form.has) + "}"; };
  fail("the row fits no form of task ", task.name, ": it has {", field_names(row),
       "}, and a form has ", joined(task.forms, ", or ", braced));
}

/// The texts of the templates. Each template gives a text or a list of texts.
std::vector<std::string> texts_of(const std::vector<Template>& templates, const Row& row,
                                  const char* what) {
  std::vector<std::string> out;
  const auto add = [&](const Row& value) {
    PENSTOCK_CHECK(value.is_string(), what, " ", out.size() + 1,
                   " is no text: ", value.dump().substr(0, 60));
    out.push_back(value.get<std::string>());
  };
  for (const Template& one : templates) {
    const Row value = one.value(row);
    if (value.is_array())
      for (const Row& choice : value) add(choice);
    else
      add(value);
  }
  return out;
}

/// The index of the right choice: a number, digits, or false (0) and true (1).
int gold_of(const Form& form, const Row& row, std::size_t choices) {
  const Row value = form.gold.value(row);
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  PENSTOCK_CHECK(!text.empty(), "the answer is empty: this split has no labels");
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  const bool whole = text.size() < 9 && text.find_first_not_of("0123456789") == std::string::npos;
  PENSTOCK_CHECK(whole && std::stoul(text) < choices, "the answer ", value.dump(),
                 " is none of the choices 0 to ", choices - 1);
  return std::stoi(text);
}

void add_choices(Item& item, const Form& form, const Task& task, const Row& row) {
  const std::string context = task.description + form.contexts.front().text(row);
  for (const std::string& choice : texts_of(form.choices, row, "choice")) {
    PENSTOCK_CHECK(!choice.empty(), "choice ", item.requests.size() + 1,
                   " is empty; there is nothing to score");
    item.requests.push_back({context, task.delimiter + choice});
    item.characters.push_back(static_cast<double>(character_count(choice)));
    item.bytes.push_back(static_cast<double>(choice.size()));
  }
}

Item make_item(const Form& form, const Task& task, const SourceRow& source, const Row& row) {
  Item out{.doc = source.row, .where = source.where};
  if (task.kind == Kind::kMultipleChoice) {
    add_choices(out, form, task, row);
  } else if (task.kind == Kind::kGeneration) {
    out.requests.push_back({task.description + form.contexts.front().text(row), ""});
    out.answers = texts_of(form.answers, row, "answer");
    PENSTOCK_CHECK(!out.answers.empty(), "there is no known answer");
    return out;
  } else {
    const std::string continuation = form.continuation.text(row);
    PENSTOCK_CHECK(!continuation.empty(), "the continuation is empty; there is nothing to score");
    for (const Template& context : form.contexts) {
      const Row contexts = context.value(row);
      for (const Row& one : contexts.is_array() ? contexts : Row::array({contexts})) {
        PENSTOCK_CHECK(one.is_string(), "a context is no text: ", one.dump().substr(0, 60));
        out.requests.push_back(
            {task.description + one.get<std::string>(), task.delimiter + continuation});
      }
    }
  }
  if (task.kind == Kind::kContinuation) return out;
  PENSTOCK_CHECK(out.choices() >= 2, "there are ", out.choices(),
                 " choices; a choice needs at least two");
  out.gold = gold_of(form, row, out.choices());
  return out;
}

/// The row after the form's preparation, and with the fields that the form computes.
Row filled_row(const Form& form, const Row& row) {
  const Row before = prepared(form.prepare, row);
  Row out = before;
  for (const auto& [name, text] : form.compute) out[name] = text.text(before);
  return out;
}

bool is_wanted(const Form& form, const Row& row) {
  return std::ranges::all_of(form.where, [&](const Template& condition) {
    const Row value = condition.value(row);
    PENSTOCK_CHECK(value.is_boolean(), "where is to be true or false, and gives ", value.dump());
    return value.get<bool>();
  });
}

}  // namespace

Items make_items(const Task& task, std::span<const SourceRow> rows, const ItemOptions& options) {
  Items out;
  for (const SourceRow& source : rows) {
    if (options.limit > 0 && out.items.size() == options.limit) break;
    try {
      const Form& form = form_of(task, source.row);
      if (!is_wanted(form, source.row)) {
        ++out.left_out;
        continue;
      }
      out.items.push_back(make_item(form, task, source, filled_row(form, source.row)));
    } catch (const Error& error) {
      fail(source.where, ": ", error.what());
    }
  }
  PENSTOCK_CHECK(!out.items.empty(), "task ", task.name, ": none of the ", rows.size(),
                 " rows is an item of it");
  return out;
}

}  // namespace penstock::tasks
