// Reads inputs and cuts them into documents.
#include "penstock/data/corpus/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/base/json_error.h"
#include "penstock/base/lines.h"
#include "penstock/data/corpus/corpus.h"
#include "penstock/data/text_files.h"
#include "penstock/data/utf8.h"

namespace penstock {
namespace {

namespace files = std::filesystem;

void check_utf8(const std::string& name, std::string_view text) {
  const auto offset = find_invalid_utf8(text);
  if (offset == text.npos) return;
  PENSTOCK_CHECK(!text.starts_with("\xFF\xFE") && !text.starts_with("\xFE\xFF"), "'", name,
                 "' begins with the mark of UTF-16, and is not UTF-8; convert it first with "
                 "'iconv -f utf-16 -t utf-8'");
  fail(fmt::format(
      "'{}' is not UTF-8: byte 0x{:02x} at offset {}; convert it first, for example with "
      "'iconv -f latin1 -t utf-8', or drop what is broken with 'iconv -c -f utf-8 -t utf-8'",
      name, static_cast<unsigned char>(text[offset]), offset));
}

/// The reason why a line is not JSON, in a few words.
std::string json_reason(std::string_view line) {
  try {
    [[maybe_unused]] const auto json = nlohmann::json::parse(line);
  } catch (const nlohmann::json::parse_error& error) {
    const std::string_view what = error.what();
    // "... surrogate U+DC00..U+DFFF must follow ...; last read: '"hi \ud800 '"
    const auto read = what.find("last read: ");
    const auto escape = what.rfind("\\u");
    if (what.find("surrogate") != what.npos && read != what.npos && escape != what.npos &&
        escape > read)
      return concat("the escape ", what.substr(escape, 6),
                    " is half of a surrogate pair, which is no character; remove it or write "
                    "\\ufffd in its place");
    return concat("it is broken at byte ", error.byte);
  } catch (const nlohmann::json::exception& error) {
    return json_error_text(error);  // a number that is too large
  }
  return "";
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == line.npos; }

/// Whether the first line is an object with the field, or the first two lines are objects. Lines
/// that are blank do not count. A single object may also be the settings of a program.
bool has_an_object_a_line(std::string_view text, const std::string& field) {
  const auto object_of_next_line = [&] {
    std::string_view line;
    while (!text.empty() && is_blank(line)) {
      line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
    }
    return nlohmann::json::parse(line, nullptr, false);
  };
  const auto first = object_of_next_line();
  return first.is_object() && (first.contains(field) || object_of_next_line().is_object());
}

/// Refuses JSON that holds documents: one list of objects, or an object a line. Brackets and keys
/// are not meant as training text.
void check_no_rows(const std::string& name, std::string_view text, const std::string& field) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return;
  PENSTOCK_CHECK(text[begin] != '{' || !has_an_object_a_line(text, field), "'", name,
                 "' has a JSON object a line; give the file a name in .jsonl, so that the text of "
                 "each object is read");
  if (text[begin] != '[') return;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  PENSTOCK_CHECK(!json.is_array() || json.empty() || !json[0].is_object(), "'", name,
                 "' is one JSON list of objects; write an object a line to a .jsonl file, for "
                 "example with 'jq -c .[]'");
}

class DocumentReader {
 public:
  DocumentReader(const DataInput& input, const ReadOptions& options,
                 const std::function<void(Document)>& visit)
      : input_(input), options_(options), visit_(visit) {}

  void read(const std::string& path, const std::string& domain) {
    domain_ = domain;
    read_text_file(
        path,
        [&](const std::string& name, std::string_view content) { read_content(name, content); },
        {.folder = options_.folder});
  }
  void read_content(const std::string& name, std::string_view content) {
    source_ = name;
    PENSTOCK_CHECK(!content.starts_with("PAR1"), "'", name,
                   "' is a Parquet file; write its text as JSONL first");
    if (content.starts_with("\xEF\xBB\xBF")) content.remove_prefix(3);  // a byte order mark
    check_utf8(name, content);
    if (name.ends_with(".json")) check_no_rows(name, content, options_.field);
    if (name.ends_with(".jsonl") || name.ends_with(".ndjson"))
      read_jsonl(name, content);
    else if (options_.separator.empty())
      add(content);
    else if (options_.separator == "blank-lines")
      split_at_blank_lines(content);
    else
      split_at_separator(content);
  }

 private:
  void add(std::string_view text, bool separated = false) {
    if (is_blank(text)) return;
    visit_({DocumentText::view_of(text), domain_, input_.split, source_, separated});
  }

  void read_jsonl(const std::string& name, std::string_view content) {
    for_each_line(content, [&](std::string_view line, std::size_t number) {
      if (is_blank(line)) return;
      const auto json = nlohmann::json::parse(line, nullptr, false);
      PENSTOCK_CHECK(json.is_object(), name, ":", number, ": the line is not a JSON object",
                     json.is_discarded() ? ": " + json_reason(line) : "");
      const auto field = json.find(options_.field);
      if (field == json.end()) {
        const std::string known =
            joined(json.items(), ", ", [](const auto& item) { return item.key(); });
        fail(name, ":", number, ": no field '", options_.field,
             "'; name the text's as options.field (here: ", known.empty() ? "none" : known, ")");
      }
      PENSTOCK_CHECK(field->is_string(), name, ":", number, ": the field '", options_.field,
                     "' is not a string");
      source_ = concat(name, ":", number);
      if (!options_.domain_field.empty()) domain_ = domain_of(json);
      add(field->get_ref<const std::string&>());
    });
  }

  /// The value of the domain field of the line at source_.
  std::string domain_of(const nlohmann::json& json) const {
    const nlohmann::json* value = &json;
    std::string_view path = options_.domain_field;
    while (value) {
      const auto dot = path.find('.');
      const auto found = value->is_object() ? value->find(path.substr(0, dot)) : value->end();
      value = value->is_object() && found != value->end() ? &*found : nullptr;
      if (dot == path.npos) break;
      path.remove_prefix(dot + 1);
    }
    PENSTOCK_CHECK(value && value->is_string() && !value->get_ref<const std::string&>().empty(),
                   source_, ": no text at '", options_.domain_field,
                   "', which is to name the document's domain (options.domain_field)");
    return value->get<std::string>();
  }

  void split_at_blank_lines(std::string_view content) {
    std::string document;
    for_each_line(content, [&](std::string_view line, std::size_t) {
      if (!is_blank(line)) {
        document += line;
      } else if (!document.empty()) {
        add(document);
        document.clear();
      }
    });
    add(document);
  }

  void split_at_separator(std::string_view content) {
    const bool separated = content.find(options_.separator) != content.npos;
    for (;;) {
      const auto at = content.find(options_.separator);
      std::string_view part = content.substr(0, at);
      while (part.starts_with('\n')) part.remove_prefix(1);
      add(part, separated);
      if (at == content.npos) return;
      content.remove_prefix(at + options_.separator.size());
    }
  }

  const DataInput& input_;
  const ReadOptions& options_;
  const std::function<void(Document)>& visit_;
  std::string domain_, source_;
};

/// Whether the folder holds a corpus, whose files are no text to prepare.
bool is_corpus(const files::path& folder) {
  return files::is_regular_file(folder / kTokensFile) &&
         files::is_regular_file(folder / kManifestFile);
}

/// Whether the folder is that of a run. Other programs have a config.toml and checkpoints too; a
/// run has a log, or checkpoints of this program's names.
bool is_run(const files::path& folder) {
  const files::path checkpoints = folder / "checkpoints";
  if (!files::exists(folder / "config.toml") || !files::is_directory(checkpoints)) return false;
  if (files::exists(folder / "metrics.jsonl")) return true;
  std::error_code unreadable;  // a folder that cannot be read has none
  for (files::directory_iterator at(checkpoints, unreadable), end; !unreadable && at != end;
       at.increment(unreadable))
    if (at->path().filename().string().starts_with("step-")) return true;
  return false;
}

/// What the folder is if none of its files are text to prepare: "corpus", "run" or "model"; "" for
/// another folder.
std::string textless_kind(const files::path& folder) {
  const auto has = [&](const char* name) { return files::exists(folder / name); };
  if (is_corpus(folder)) return "corpus";
  if (is_run(folder)) return "run";
  const bool weights = has("model.safetensors") || has("model.safetensors.index.json");
  return has("config.json") && weights ? "model" : "";
}

/// The regular files below a folder, sorted by path. Leaves out the files of corpora.
std::vector<files::path> list_files(const files::path& root) {
  std::vector<files::path> found;
  try {
    for (auto it = files::recursive_directory_iterator(root); it != files::end(it); ++it) {
      if (is_hidden_name(it->path().filename().string()) ||
          (it->is_directory() && is_corpus(it->path()))) {
        it.disable_recursion_pending();
      } else if (it->is_regular_file()) {
        found.push_back(it->path());
      }
    }
  } catch (const files::filesystem_error& error) {
    fail("cannot list '", root.string(), "': ", error.code().message());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Adds documents to `out`, with texts of their own.
std::function<void(Document)> owner_of(std::vector<Document>& out) {
  return [&out](Document document) {
    document.text = std::string(document.text);
    out.push_back(std::move(document));
  };
}

}  // namespace

std::string default_domain(const std::string& path) {
  // The canonical path gives "." and "corpus/" names.
  if (files::is_directory(path)) return files::canonical(path).filename().string();
  const std::string name = without_compression_suffix(files::path(path).filename().string());
  const auto dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

std::vector<files::path> document_files(const std::string& path) {
  if (!files::is_directory(path)) return {path};
  const std::string kind = textless_kind(path);
  PENSTOCK_CHECK(kind.empty(), "'", path, "' is a ", kind,
                 ", which holds no text; name the text itself");
  return list_files(path);
}

std::vector<Document> documents_in(const std::string& name, std::string_view content,
                                   const ReadOptions& options) {
  const DataInput input{.path = name};
  std::vector<Document> out;
  const std::function<void(Document)> add = owner_of(out);
  DocumentReader(input, options, add).read_content(name, content);
  return out;
}

void for_each_document(const DataInput& input, const ReadOptions& options,
                       const std::function<void(Document)>& visit) {
  PENSTOCK_CHECK(files::exists(input.path), "no such file or folder: '", input.path, "'");
  DocumentReader reader(input, options, visit);
  if (!files::is_directory(input.path)) {
    reader.read(input.path, input.domain.empty() ? default_domain(input.path) : input.domain);
    return;
  }
  for (const auto& path : document_files(input.path)) {
    const auto below = path.lexically_relative(input.path);
    const bool direct = !below.has_parent_path();
    const std::string own = direct ? default_domain(input.path) : below.begin()->string();
    reader.read(path.string(), input.domain.empty() ? own : input.domain);
  }
}

std::vector<Document> read_documents(const DataInput& input, const ReadOptions& options) {
  std::vector<Document> out;
  for_each_document(input, options, owner_of(out));
  return out;
}

std::vector<Document> read_nonempty(const DataInput& input, const ReadOptions& options) {
  std::vector<Document> out = read_documents(input, options);
  if (out.empty()) fail_without_text(input);
  return out;
}

void fail_without_text(const DataInput& input) {
  fail("'", input.path, "' is empty: it holds no text");
}

}  // namespace penstock
