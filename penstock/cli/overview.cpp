#include "penstock/cli/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/home.h"
#include "penstock/base/joined.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/cli/arguments/path_word.h"
#include "penstock/cli/default_run.h"
#include "penstock/data/corpus/corpus.h"
#include "penstock/finetune/run_record.h"
#include "penstock/io/toml.h"
#include "penstock/models/model_config.h"
#include "penstock/train/read_recipe.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int kDepth = 2;
constexpr std::size_t kMostShown = 6, kMostEntries = 2000;

/// Whether a terminal would obey the byte in place of showing it.
bool is_control(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  return value < 0x20 || value == 0x7f;
}

/// The paths of each kind.
struct Found {
  std::map<std::string, std::vector<std::string>> kinds;
  std::size_t entries = 0;

  /// The first path of that kind that can be typed and for which `fits` holds, or a null pointer.
  template <class Fits>
  const std::string* first(const std::string& kind, const Fits& fits) const {
    const auto at = kinds.find(kind);
    if (at == kinds.end()) return nullptr;
    const auto found = std::ranges::find_if(at->second, [&](const std::string& path) {
      return std::ranges::none_of(path, is_control) && fits(path);
    });
    return found == at->second.end() ? nullptr : &*found;
  }
  const std::string* first(const std::string& kind) const {
    return first(kind, [](const std::string&) { return true; });
  }
};

/// "recipe", "study file", or "" for another TOML file.
std::string kind_of_toml(const fs::path& path) {
  try {
    const ConfigNode node = read_toml(path.string());
    if (node.find("variants")) return "study file";
    return node.find("train") || node.find("model") ? "recipe" : "";
  } catch (const Error&) {
    return "";
  }
}

/// Whether the run's config.toml is that of a fine-tuning.
bool is_tuned(const fs::path& run) {
  try {
    return is_finetuning(run.string());
  } catch (const Error&) {
    return false;
  }
}

bool has_checkpoint(const std::string& run) {
  std::error_code unreadable;
  const fs::path checkpoints = fs::path(run) / "checkpoints";
  return fs::exists(checkpoints, unreadable) && !fs::is_empty(checkpoints, unreadable);
}

/// Whether `penstock generate` takes the run: it has a checkpoint, and by its config.toml no token
/// depends on later ones.
bool writes_text(const std::string& run) {
  if (!has_checkpoint(run)) return false;
  try {
    return recorded_recipe(run + "/config.toml").model.traits().causal;
  } catch (const Error&) {
    return true;
  }
}

std::string kind_of_folder(const fs::path& path) {
  std::error_code unreadable;  // what cannot be read is passed over
  const auto holds = [&](const char* name) { return fs::exists(path / name, unreadable); };
  if (holds(kManifestFile) && holds(kTokensFile)) return "corpus";
  if (holds("results.json") && fs::is_directory(path / "runs", unreadable)) return "study";
  if (holds("checkpoints") || (holds("metrics.jsonl") && holds("config.toml")))
    return is_tuned(path) ? "fine-tuned run" : "run";
  return holds("config.json") ? "model" : "";
}

/// The names in the folder, in their order, as many as may be read. None of a folder that cannot be
/// read.
std::vector<fs::path> names_in(const fs::path& folder, std::size_t& entries) {
  std::error_code unreadable;
  std::vector<fs::path> out;
  for (fs::directory_iterator at(folder, unreadable), end; !unreadable && at != end;
       at.increment(unreadable))
    if (++entries <= kMostEntries) out.push_back(at->path().filename());
  std::ranges::sort(out);
  return out;
}

void look(const fs::path& folder, const fs::path& shown, int depth, Found& found) {
  for (const auto& name : names_in(folder, found.entries)) {
    if (name.string().starts_with('.')) continue;
    std::error_code unreadable;
    const fs::path path = folder / name, as_shown = shown / name;
    const bool directory = fs::is_directory(path, unreadable);
    std::string kind;
    if (directory)
      kind = kind_of_folder(path);
    else if (!fs::is_regular_file(path, unreadable))
      continue;
    else if (name.extension() == ".toml")
      kind = kind_of_toml(path);
    else if (name.extension() == ".gguf")
      kind = "model";
    if (!kind.empty())
      found.kinds[kind].push_back(as_shown.string());
    else if (directory && depth < kDepth)
      look(path, as_shown, depth + 1, found);
  }
}

std::string list_of(const Found& found, const char* kind, const char* title) {
  const auto at = found.kinds.find(kind);
  if (at == found.kinds.end()) return "";
  std::string out = joined(std::views::take(at->second, kMostShown));
  std::ranges::replace_if(out, is_control, '?');
  if (at->second.size() > kMostShown)
    out += fmt::format(" and {} more", at->second.size() - kMostShown);
  return fmt::format("  {:<17} {}\n", title, out);
}

/// The text at the key, "" where there is none.
std::string text_at(const ConfigNode& node, std::initializer_list<const char*> key) {
  const ConfigNode* at = &node;
  for (const char* name : key)
    if (at) at = at->find(name);
  const auto* text = at ? std::get_if<std::string>(&at->value()) : nullptr;
  return text ? *text : "";
}

/// The corpus that a recipe or a study names, a study also by its base; "" where none is named.
std::string named_corpus(const fs::path& file) {
  try {
    const ConfigNode node = read_toml(file.string());
    const std::string own = text_at(node, {"data", "corpus"}),
                      set = text_at(node, {"set", "data", "corpus"}),
                      base = text_at(node, {"base"});
    if (!own.empty() || !set.empty() || base.empty()) return own.empty() ? set : own;
    return text_at(read_toml((file.parent_path() / base).string()), {"data", "corpus"});
  } catch (const Error&) {
    return "";
  }
}

/// The words behind a command so that it finds a corpus: none, or --set where the corpus that the
/// file names is not there. Nothing where there is no corpus at all.
std::optional<std::string> corpus_words(const std::string& file, const std::string* corpus) {
  const std::string named = named_corpus(file);
  std::error_code unreadable;
  if (named.empty() || named.starts_with('~') || fs::exists(named, unreadable)) return "";
  if (!corpus) return std::nullopt;
  return " --set " + shell_quoted("data.corpus=" + *corpus);
}

/// A line about the command; "" for one that a terminal would not show as it is.
std::string suggestion(const std::string& command, const char* what) {
  if (std::ranges::any_of(command, is_control)) return "";
  return fmt::format("  {:<49}  {}\n", command, what);
}

std::string suggestions_for_text(const std::string& model) {
  return suggestion("penstock generate " + path_word(model) + " --prompt 'The '",
                    "write text with it") +
         suggestion("penstock serve " + path_word(model), "chat with it in a browser");
}

std::string next_commands(const Found& found) {
  std::string out;
  const auto add = [&](const std::string& command, const char* what) {
    out += suggestion(command, what);
  };
  const std::string *run = found.first("run", writes_text), *model = found.first("model"),
                    *corpus = found.first("corpus"), *usable = run ? run : model;
  if (usable) out += suggestions_for_text(*usable);
  const std::string* measured = usable ? usable : found.first("run", has_checkpoint);
  if (measured && corpus)
    add("penstock eval " + path_word(*measured) + " --data " + path_word(*corpus), "measure it");
  std::error_code unreadable;
  const auto has_corpus = [&](const std::string& file) {
    return corpus_words(file, corpus).has_value();
  };
  const auto untrained = [&](const std::string& recipe) {
    return !fs::exists(default_run(recipe), unreadable) && has_corpus(recipe);
  };
  const auto unfinished = [&](const std::string& recipe) {
    const fs::path run = default_run(recipe);
    return fs::exists(run, unreadable) && !fs::exists(run / "finished.json", unreadable) &&
           has_corpus(recipe);
  };
  if (const std::string* recipe = found.first("recipe", untrained))
    add("penstock train " + path_word(*recipe) + *corpus_words(*recipe, corpus), "train");
  else if ((recipe = found.first("recipe", unfinished)))
    add("penstock train " + path_word(*recipe) + *corpus_words(*recipe, corpus) + " --resume",
        "continue the training");
  if (const std::string* study = found.first("study file", has_corpus))
    add("penstock study " + path_word(*study) + *corpus_words(*study, corpus), "train and compare");
  if (!corpus)
    add("penstock data prepare --system --out corpora/system", "a corpus of this machine's text");
  add("penstock init", "a recipe that fits the time you have");
  add("penstock --help", "every command");
  return out;
}

/// The number of folders to go up from the run's until the recipe's path of the corpus is right:
/// the run was begun there. Nothing if the corpus is not found.
std::optional<int> folders_up(const fs::path& run, const std::string& corpus) {
  constexpr int kMostUp = 8;
  std::error_code unreadable;
  fs::path from = run;
  for (int up = 0; !corpus.empty() && up <= kMostUp; ++up, from /= "..")
    if (fs::exists(from / corpus / kManifestFile, unreadable)) return up;
  return std::nullopt;
}

/// The shell's command that goes up that many folders; "" for none. Where the shell came by a link
/// among these folders, its ".." is the folder that holds the link, and with -P the one that holds
/// the run.
std::string going_up(const fs::path& whole, int up) {
  if (up == 0) return "";
  std::error_code none;
  const char* const shown = std::getenv("PWD");
  fs::path above = whole, above_shown = shown ? shown : whole;
  for (int i = 0; i < up; ++i) {
    above = above.parent_path();
    above_shown = above_shown.parent_path();
  }
  const bool by_link =
      shown && fs::equivalent(shown, whole, none) && !fs::equivalent(above_shown, above, none);
  std::string out = by_link ? "cd -P .." : "cd ..";
  for (int i = 1; i < up; ++i) out += "/..";
  return out + " && ";
}

/// The command that resumes the run of the current folder from the folder where it was begun.
std::string resuming_command(const fs::path& run, int up) {
  std::error_code unreadable;
  const fs::path whole = fs::canonical(run, unreadable);
  fs::path begun = whole;
  for (int i = 0; i < up; ++i) begun = begun.parent_path();
  const std::string recipe = (whole / "config.toml").lexically_relative(begun).string();
  return going_up(whole, up) + "penstock train " + path_word(recipe) + " --resume";
}

std::string suggestions_for_run(const fs::path& run) {
  std::string out;
  if (writes_text(run.string())) out += suggestions_for_text(".");
  const std::string corpus = with_home(named_corpus(run / "config.toml"));
  const std::optional<int> up = folders_up(run, corpus);
  if (up && has_checkpoint(run.string())) {
    std::string above;
    for (int i = 0; i < *up; ++i) above += "../";
    out += suggestion("penstock eval . --data " + path_word(above + corpus), "measure it");
  }
  out += suggestion("penstock view .", "its curves and report in a browser");
  std::error_code unreadable;
  if (up && !fs::exists(run / "finished.json", unreadable))
    out += suggestion(resuming_command(run, *up), "continue the training");
  return out;
}

/// What is said in a folder that is itself a run, a study, a model or a corpus; "" elsewhere.
std::string overview_inside(const fs::path& folder) {
  std::error_code unreadable;
  const auto holds = [&](const char* name) { return fs::exists(folder / name, unreadable); };
  const std::string kind = kind_of_folder(folder);
  std::string commands;
  if (kind == "run" && holds("config.toml"))
    commands = suggestions_for_run(folder);
  else if (kind == "fine-tuned run" || kind == "study")
    commands = suggestion("penstock view .", "its curves and report in a browser");
  else if (kind == "model" && (holds("model.safetensors") || holds("model.safetensors.index.json")))
    commands = suggestions_for_text(".");
  else if (kind != "corpus")
    return "";
  return fmt::format("This folder is a {}.\n\nWhat one can do next:\n{}{}", kind, commands,
                     suggestion("penstock --help", "every command"));
}

/// What is in the folder and in the two levels below, and the next commands for it.
std::string overview_of(const std::string& folder) {
  Found found;
  look(folder, "", 0, found);
  for (auto& [kind, paths] : found.kinds)  // what lies in the folder itself comes first
    std::ranges::stable_sort(paths, {},
                             [](const std::string& path) { return std::ranges::count(path, '/'); });
  std::string out = list_of(found, "recipe", "recipes") + list_of(found, "study file", "studies") +
                    list_of(found, "study", "finished studies") +
                    list_of(found, "corpus", "corpora") + list_of(found, "run", "runs") +
                    list_of(found, "fine-tuned run", "fine-tuned runs") +
                    list_of(found, "model", "models");
  out = out.empty() ? "Nothing of Penstock's is in this folder yet.\n" : "In this folder:\n" + out;
  return out + "\nWhat one can do next:\n" + next_commands(found);
}

}  // namespace

std::string overview(const std::string& folder) {
  const std::string inside = overview_inside(folder);
  return "Penstock " PENSTOCK_VERSION ": Mixture-of-Experts language models with any router.\n\n" +
         (inside.empty() ? overview_of(folder) : inside);
}

}  // namespace penstock
