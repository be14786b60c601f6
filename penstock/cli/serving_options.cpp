// The options that serving commands share.
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/cli/serving.h"
#include "penstock/serve/chat_form.h"

namespace penstock {

void add_port_options(CLI::App& command, ServingArguments& arguments) {
  command.add_option("--port", arguments.http.port, "0: any that is free")
      ->check(whole_number(0, 65535))
      ->capture_default_str();
  command
      .add_option("--connections", arguments.http.connections,
                  "most at a time; a client beyond them takes the place of one that waits without "
                  "a request")
      ->check(whole_number(1, 10000))
      ->capture_default_str();
  add_threads(command, arguments.threads);
}

void add_model_options(CLI::App& command, ServingArguments& arguments) {
  command.add_option("--name", arguments.name,
                     "of the model in requests and answers; by default its folder's or file's");
  command
      .add_option("--beside", arguments.beside,
                  "another model in the same server, by the name of its folder or file; as often "
                  "as there are")
      ->expected(1)
      ->take_all();
  command.add_flag(
      "--folded", arguments.folded,
      "beside it the same model with each router folded to one matrix, as NAME-folded");
  command.add_option("--data", arguments.data,
                     "corpus whose tokens and domains /v1/corpus and the page show by expert");
  command.add_option("--chat-template", arguments.chat_template,
                     "form of chats: " + serve::chat_form_names() +
                         "; by default the one that the model's template is");
  BatcherOptions& batcher = arguments.service.batcher;
  command.add_option("--sequences", batcher.reader.places, "texts that are written at a time")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command
      .add_option("--kept", batcher.reader.kept,
                  "texts besides whose keys and values are kept for prompts that begin alike")
      ->check(whole_number(0, 1024))
      ->capture_default_str();
  command
      .add_option("--context", batcher.reader.capacity,
                  "most tokens of a text with its prompt; at most the model's own context")
      ->check(whole_number(1))
      ->capture_default_str();
  command
      .add_option("--prompt-tokens", batcher.prompt_tokens,
                  "tokens of prompts that are read beside a token of every other text")
      ->check(whole_number(1, 65536))
      ->capture_default_str();
  command
      .add_option("--queue", arguments.service.queue, "texts that may wait; more are refused (429)")
      ->check(whole_number(1, 100000))
      ->capture_default_str();
  command.add_flag("--exact", arguments.exact, "as `penstock generate --exact`");
}

}  // namespace penstock
