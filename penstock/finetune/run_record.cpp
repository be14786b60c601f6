#include "penstock/finetune/run_record.h"

#include <filesystem>

#include "penstock/base/error.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/io/toml.h"

namespace penstock {
namespace {

/// The value of a key as TOML; "not set" if there is none.
std::string toml_value(const ConfigNode& from, const std::string& key) {
  const ConfigNode* node = from.find(key);
  ConfigNode holder;
  if (node) holder.set("v", *node);
  const std::string toml = to_toml(holder);  // "v = 1\n", or "" without a value
  return toml.size() > 4 ? toml.substr(4, toml.size() - 5) : std::string("not set");
}

std::string hash_difference(const char* what, const std::string& before, const std::string& now) {
  return before == now ? "" : concat("the content of ", what, " has changed");
}

}  // namespace

bool is_finetuning(const std::string& run_directory) {
  const std::string path = run_directory + "/config.toml";
  return std::filesystem::exists(path) && read_toml(path).find("finetune");
}

FinetuneRecord read_finetune_record(const std::string& run_directory) {
  const std::string path = run_directory + "/config.toml";
  PENSTOCK_CHECK(std::filesystem::exists(path), run_directory,
                 ": holds no config.toml; give a folder that `penstock finetune --out` wrote");
  const ConfigNode node = read_toml(path);
  PENSTOCK_CHECK(node.find("finetune"), path, ": is not of a fine-tuning");
  return read_config<FinetuneRecord>(node);
}

std::string difference(const FinetuneRecord& before, const FinetuneRecord& now) {
  // An earlier difference may be the cause of a later one, so the first is reported.
  const ConfigNode a = write_config(before.finetune), b = write_config(now.finetune);
  for (const auto& field : describe_config<FinetuneConfig>()) {
    if (field.path == "emulate_bf16") continue;  // it does not change the bits of results
    const std::string old_value = toml_value(a, field.path), value = toml_value(b, field.path);
    if (old_value != value) return concat(field.path, ": ", old_value, " -> ", value);
  }
  if (before.task != now.task) return concat("task: ", word(before.task), " -> ", word(now.task));
  const std::string model = hash_difference("the model", before.model_hash, now.model_hash);
  return model.empty() ? hash_difference("the data", before.data_hash, now.data_hash) : model;
}

std::string finetune_command(const FinetuneRecord& record, const std::string& run_directory) {
  std::string out = "penstock finetune " + shell_quoted(record.model) + " --data " +
                    shell_quoted(record.data) + " --task " + std::string(word(record.task));
  if (record.finetune.authors()) out += " --set protocol=authors";
  ConfigNode protocol;
  protocol.set("protocol", std::string(word(record.finetune.protocol)));
  const ConfigNode usual = write_config(read_finetune_config(protocol)),
                   own = write_config(record.finetune);
  for (const auto& field : describe_config<FinetuneConfig>()) {
    const std::string value = toml_value(own, field.path);
    if (value != toml_value(usual, field.path))
      out += " --set " + shell_quoted(field.path + "=" + value);
  }
  return out + " --out " + shell_quoted(run_directory + "-again");
}

}  // namespace penstock
