#include "penstock/cli/serving_options.h"

#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/serve/chat_form.h"

namespace penstock {

void add_port_options(CLI::App& command, ServingArguments& arguments) {
  command.add_option("--port", arguments.http.port, "port to listen on; 0: any free port")
      ->check(whole_number(0, 65535))
      ->capture_default_str();
  command
      .add_option(
          "--connections", arguments.http.connections,
          "largest number of open connections; a further client replaces a connection that is idle")
      ->check(whole_number(1, 10000))
      ->capture_default_str();
  add_threads(command, arguments.threads);
}

void add_model_options(CLI::App& command, ServingArguments& arguments) {
  command.add_option(
      "--name", arguments.name,
      "name of the model in requests and answers; default: the name of its folder or file");
  one_value_each(command.add_option(
      "--beside", arguments.beside,
      "another model in the same server, named after its folder or file; may be repeated"));
  command.add_flag("--folded", arguments.folded,
                   "also serve the model with each router folded into one matrix, as NAME-folded");
  command.add_option(
      "--data", arguments.data,
      "corpus whose tokens and domains are shown for each expert by /v1/corpus and the page");
  command.add_option(
      "--chat-template", arguments.chat_template,
      "form of chats: " + serve::chat_form_names() + "; default: the form of the model's template");
  BatcherOptions& batcher = arguments.service.batcher;
  command
      .add_option("--sequences", batcher.reader.sequences,
                  "number of texts generated at the same time")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command
      .add_option("--kept", batcher.reader.kept,
                  "number of further texts whose keys and values are kept for prompts with the "
                  "same beginning")
      ->check(whole_number(0, 1024))
      ->capture_default_str();
  command
      .add_option(
          "--context", batcher.reader.capacity,
          "largest number of tokens read of a text with its prompt; at most a decoder's context")
      ->check(whole_number(1))
      ->capture_default_str();
  command
      .add_option("--prompt-tokens", batcher.prompt_tokens,
                  "prompt tokens that a step reads, in addition to one token of every other text")
      ->check(whole_number(1, 65536))
      ->capture_default_str();
  command
      .add_option("--queue", arguments.service.queue,
                  "largest number of waiting texts; further texts are refused (429)")
      ->check(whole_number(1, 100000))
      ->capture_default_str();
  command.add_flag("--exact", arguments.exact,
                   "do not round activations to 8 bits for weights in Q4_K or Q6_K");
}

}  // namespace penstock
