#include "penstock/convert/model_writer.h"

#include <map>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/links.h"
#include "penstock/base/new_folders.h"
#include "penstock/models/files/chat_template.h"
#include "penstock/models/files/generation_files.h"
#include "penstock/models/files/model_directory.h"

namespace penstock {
namespace {

std::map<std::string, std::string> tokenizer_files(const ModelSource& parent, std::string& reason) {
  try {
    auto files = parent.tokenizer()->files();
    files.merge(chat_template_files(chat_template_of(parent.origin()), files));
    return files;
  } catch (const Error& error) {  // a model without a tokenizer still has weights
    reason = error.what();
    return {};
  }
}

}  // namespace

LazyTensor FreshBalancers::tensor(const std::string& name) const {
  for (std::size_t i = 0; i < balancers_.size(); ++i) {
    const std::string stem = "penstock.balancer_" + std::to_string(i) + ".";
    for (const auto& item : balancers_[i]->named_buffers())
      if (name == stem + item.key()) {
        const at::Tensor value = item.value();
        return {.type = value.scalar_type(), .make = [value] { return value; }};
      }
  }
  assertion_failed("every balancer's state is made", name);
}

namespace {

/// The tensors, with makers that report which share of all tensors is done.
std::vector<LazyTensor> watched(std::vector<LazyTensor> tensors,
                                const ConversionProgress& progress) {
  if (!progress) return tensors;
  const auto all = static_cast<double>(tensors.size());
  const auto made = std::make_shared<double>(0);
  for (LazyTensor& tensor : tensors)
    tensor.make = [make = std::move(tensor.make), made, all, &progress] {
      tell(progress, "writing", (*made)++ / all);
      return make();
    };
  return tensors;
}

}  // namespace

WrittenModel write_model_of(
    const ModelSource& parent, const ModelConfig& config, std::vector<LazyTensor> tensors,
    const std::pair<std::string, std::function<std::string(const WrittenModel&)>>& note,
    FileSystem& fs, const std::string& out, const ConversionProgress& progress) {
  PENSTOCK_ASSERT(!fs.exists(out), "refused before anything was made");
  const NewFolders folders(fs, parent_directory(followed(out)));
  clean_leftovers_of(fs, out);
  WrittenModel written;
  AtomicDirectory directory(fs, out);
  const auto file = directory.create("model.safetensors");
  write_lazy_tensors(*file, watched(std::move(tensors), progress), {{"format", "pt"}});
  file->close();
  directory.write("config.json", config_json_text(config));
  for (const auto& [name, text] : tokenizer_files(parent, written.without_tokenizer))
    directory.write(name, text);
  for (const auto& [name, text] : generation_files(parent.origin(), config.vocab))
    directory.write(name, text);
  written.bytes = directory.digests().at("model.safetensors").bytes;
  directory.write(note.first, note.second(written));
  directory.commit();
  return written;
}

}  // namespace penstock
