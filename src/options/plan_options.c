#include "options/plan_options.h"

#include "base/format.h"
#include "base/log.h"
#include "base/whole_number.h"
#include "checkpoint/model_source.h"
#include "config/name_answers.h"
#include "options/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

tri_plan_options tri_plan_options_default(void) {
  return (tri_plan_options){.system_name = "trireme", .precision = TRI_BF16, .node_power = -1};
}

static tri_status read_precision(void *values, const char *text) {
  tri_plan_options *o = values;
  static const char *const names[] = {"bf16", "fp16", "fp32", "fp64"};
  static const tri_dtype types[] = {TRI_BF16, TRI_BF16, TRI_FP32, TRI_FP64};
  int which = 0;
  const char *answer = tri_value_answer(text);
  if (answer != NULL) return tri_fail(TRI_BAD_USAGE, "--precision %s: %s", text, answer);
  TRI_TRY(tri_option_word("--precision", text, names, sizeof names / sizeof names[0], &which));
  o->precision = types[which];
  return TRI_OK;
}

static tri_status read_packing(void *values, const char *text) {
  tri_plan_options *o = values;
  static const char *const names[] = {"windows", "documents"};
  int which = 0;
  TRI_TRY(tri_option_word("--packing", text, names, 2, &which));
  o->packed = which == 1;
  return TRI_OK;
}

/* Parses an optimizer's name, and an optional rank after a colon. All other settings of *out stay as they are. Fails
 * with TRI_BAD_USAGE also if the optimizer needs a rank that is not given. */
static tri_status optimizer_of(const char *text, tri_optimizer_settings *out) {
  char given[32];
  const char *colon = strchr(text, ':');
  int name = 0;
  snprintf(given, sizeof given, "%.*s", colon == NULL ? (int)sizeof given - 1 : (int)(colon - text), text);
  if (!tri_config_find_word(tri_optimizer_words, given, &name)) {
    const char *names[32];
    int count = 0;
    for (; count < 32 && tri_optimizer_words[count].name != NULL; count++)
      names[count] = tri_optimizer_words[count].name;
    return tri_option_word("--optimizer", given, names, count, &name);
  }
  out->name = (tri_optimizer_name)name;
  if (colon != NULL) {
    TRI_TRY(tri_option_int("the rank of --optimizer", colon + 1, 1, 1 << 30, &out->galore.rank));
    out->fira.rank = out->galore.rank;
  }
  if (tri_optimizer_settings_check(out) == TRI_OK) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE,
                  "--optimizer is `%s`, which keeps moments of some directions of each matrix; add their number, for "
                  "example --optimizer %s:128",
                  given, given);
}

static tri_status add_set(void *values, const char *text) {
  tri_plan_options *o = values;
  if (o->num_sets == TRI_PLAN_SETS) return tri_fail(TRI_BAD_USAGE, "--set is given more than %d times", TRI_PLAN_SETS);
  o->sets[o->num_sets++] = text;
  return TRI_OK;
}

/* Parses the settings of --set and the optimizer to o->trained, and applies them to the model. */
static tri_status find_trained(tri_plan_options *o) {
  TRI_TRY(tri_training_options_parse(o->sets, o->num_sets, &o->trained));
  if (o->optimizer != NULL) TRI_TRY(optimizer_of(o->optimizer, &o->trained.optimizer));
  return tri_training_options_apply(&o->trained, &o->model);
}

enum { MOST = 1 << 24 };

/* Parses a list of numbers of devices such as "64,128,512" to o->listed, sorted, and sets o->devices and o->devices_to
 * to its ends. Fails with TRI_BAD_USAGE if a number occurs twice or there are more than TRI_PLAN_DEVICES. */
static tri_status list_of(const char *text, tri_plan_options *o) {
  for (const char *at = text; at != NULL;) {
    char word[32];
    int64_t devices = 0, place = o->num_listed;
    if (o->num_listed == TRI_PLAN_DEVICES)
      return tri_fail(TRI_BAD_USAGE, "--devices lists more than %d numbers", TRI_PLAN_DEVICES);
    snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
    TRI_TRY(tri_option_int("--devices, between commas,", word, 1, MOST, &devices));
    for (; place > 0 && o->listed[place - 1] > devices; place--) o->listed[place] = o->listed[place - 1];
    if (place > 0 && o->listed[place - 1] == devices)
      return tri_fail(TRI_BAD_USAGE, "--devices lists %lld twice", (long long)devices);
    o->listed[place] = devices;
    o->num_listed++;
    at = strchr(at, ',');
    if (at != NULL) at++;
  }
  o->devices = o->listed[0];
  o->devices_to = o->listed[o->num_listed - 1];
  return TRI_OK;
}

/* Parses numbers of devices: "512", "512..2048", "512..2048:256" or "64,128,512". */
static tri_status read_devices(void *values, const char *text) {
  tri_plan_options *o = values;
  char first[32], last[32];
  const char *dots = strstr(text, ".."), *colon = strchr(text, ':');
  o->devices_to = o->devices_step = o->num_listed = 0;
  if (strchr(text, ',') != NULL && dots == NULL) return list_of(text, o);
  int64_t whole = 0;
  if (dots == NULL && !tri_whole_number(text, &whole) && strchr(text, '-') != NULL && text[0] != '-') {
    return tri_fail(TRI_BAD_USAGE,
                    "--devices takes a whole number, a range such as 512..2048 or 512..2048:256, or a list such as "
                    "64,128,512, not `%s`",
                    text);
  }
  if (dots == NULL) return tri_option_int("--devices", text, 1, MOST, &o->devices);
  snprintf(first, sizeof first, "%.*s", (int)(dots - text), text);
  snprintf(last, sizeof last, "%.*s", (int)strcspn(dots + 2, ":"), dots + 2);
  TRI_TRY(tri_option_int("--devices, before the dots,", first, 1, MOST, &o->devices));
  TRI_TRY(tri_option_int("--devices, after the dots,", last, o->devices, MOST, &o->devices_to));
  if (colon == NULL) return TRI_OK;
  return tri_option_int("--devices, after the colon,", colon + 1, 1, MOST, &o->devices_step);
}

/* Parses a batch in sequences, such as "640", or in tokens, such as "16M-tokens". K, M and G are 2^10, 2^20 and 2^30,
 * as in papers. */
static tri_status read_batch(void *values, const char *text) {
  tri_plan_options *o = values;
  static const char units[] = " KMG", ending[] = "-tokens";
  char number[32];
  const size_t length = strlen(text), end = strlen(ending);
  const char last = length == 0 ? '\0' : text[length - 1];
  o->batch_tokens = 0;
  if (length <= end || strcmp(text + length - end, ending) != 0) {
    if (last == 'K' || last == 'M' || last == 'G') {
      return tri_fail(TRI_BAD_USAGE,
                      "--global-batch takes a number of sequences, not `%s`; a batch of that many tokens is "
                      "--global-batch %s-tokens",
                      text, text);
    }
    return tri_option_int("--global-batch", text, 1, MOST, &o->global_batch);
  }
  snprintf(number, sizeof number, "%.*s", (int)(length - end), text);
  const size_t digits = strlen(number);
  const char *unit = digits == 0 ? NULL : strchr(units + 1, number[digits - 1]);
  if (unit != NULL) number[digits - 1] = '\0';
  TRI_TRY(tri_option_double("--global-batch, before -tokens,", number, 1e-6, 1e18, &o->batch_tokens));
  for (int power = 0; unit != NULL && power < unit - units; power++) o->batch_tokens *= 1024;
  return TRI_OK;
}

/* Parses a number of tokens, such as "300e9", "300B" or "15T". K, M, B and T are 10^3, 10^6, 10^9 and 10^12, as in
 * reports on models. */
static tri_status read_tokens(void *values, const char *text) {
  tri_plan_options *o = values;
  static const char units[] = "KMBT";
  char number[32];
  double unit = 1;
  const size_t length = strlen(text);
  const char *of = length < 2 || length > sizeof number ? NULL : strchr(units, text[length - 1]);
  if (of == NULL) return tri_option_double("--tokens", text, 1, 1e18, &o->tokens);
  snprintf(number, sizeof number, "%.*s", (int)length - 1, text);
  for (int i = 0; i <= of - units; i++) unit *= 1000;
  TRI_TRY(tri_option_double("--tokens, before its unit,", number, 1 / unit, 1e18 / unit, &o->tokens));
  o->tokens *= unit;
  return TRI_OK;
}

/* Computes and logs the number of sequences of a batch that was given in tokens, rounded to whole sequences. Fails with
 * TRI_BAD_USAGE if there are too many. Does nothing for a batch that was given in sequences. */
static tri_status complete_batch(tri_plan_options *o) {
  char tokens[32], length[32];
  if (o->batch_tokens == 0) return TRI_OK;
  const double sequences = fmax(1, round(o->batch_tokens / (double)o->sequence));
  if (sequences > MOST)
    return tri_fail(TRI_BAD_USAGE, "--global-batch is more than the %d sequences that can be", MOST);
  o->global_batch = (int64_t)sequences;
  tri_log("a global batch of %s tokens: %lld sequence%s of %s tokens, %lld tokens",
          tri_format_count(o->batch_tokens, tokens, sizeof tokens), (long long)o->global_batch,
          TRI_PLURAL(o->global_batch), tri_format_count((double)o->sequence, length, sizeof length),
          (long long)o->global_batch * (long long)o->sequence);
  return TRI_OK;
}

/* Parses a number of bytes, such as "2GiB", or a share of the memory, such as "3%". */
static tri_status read_margin(void *values, const char *text) {
  tri_plan_options *o = values;
  const size_t length = strlen(text);
  char number[32];
  size_t bytes = 0;
  o->margin_bytes = o->margin_share = 0;
  if (length > 0 && length < sizeof number && text[length - 1] == '%') {
    snprintf(number, sizeof number, "%.*s", (int)length - 1, text);
    TRI_TRY(tri_option_double("--margin, before %,", number, 0, 99, &o->margin_share));
    o->margin_share /= 100;
    return TRI_OK;
  }
  TRI_TRY(tri_option_bytes("--margin", text, &bytes));
  o->margin_bytes = (double)bytes;
  return TRI_OK;
}

static tri_status apply_margin(tri_plan_options *o) {
  char margin[32], all[32];
  const double bytes = o->margin_bytes + o->margin_share * o->cluster.memory_bytes;
  if (bytes + o->cluster.reserved_bytes >= o->cluster.memory_bytes) {
    return tri_fail(TRI_BAD_USAGE, "--margin is %s, and a device of %s has %s; give less",
                    tri_format_bytes(bytes, margin, sizeof margin), o->cluster.name,
                    tri_format_bytes(o->cluster.memory_bytes, all, sizeof all));
  }
  o->cluster.margin_bytes = bytes;
  return TRI_OK;
}

static tri_status read_fixed(void *values, const char *text) {
  tri_plan_options *o = values;
  o->fixed = *text == '\0' ? NULL : text;
  return TRI_OK;
}

#define TRI_OPTION_VALUES tri_plan_options
const tri_option tri_plan_machine_rows[] = {
    {TRI_PATH("model", model_name), .help = "  --model M           a preset (configs/models), a model file, or a "
                                            "checkpoint's, a run's or a Hugging Face folder\n"},
    {TRI_PATH("cluster", cluster_name),
     .help = "  --cluster C         a preset (configs/clusters) or a cluster file\n"},
    {TRI_READ("devices", read_devices),
     .help = "  --devices N         how many devices; a part of one node, or whole nodes\n"},
    {0}};
const tri_option tri_plan_batch_rows[] = {
    {TRI_READ("global-batch", read_batch), .help = "  --global-batch B    sequences in one step; 16M-tokens: as many "
                                                   "as come nearest to 16 x 2^20 tokens (also K, G)\n"},
    {TRI_LENGTH("sequence", sequence, 1, 1 << 30),
     .help =
         "  --sequence S        tokens of one; the model's max_sequence unless given, where that is 8192 or less\n"},
    {0}};
const tri_option tri_plan_fixed_rows[] = {
    {TRI_READ("layout", read_fixed),
     .help = "  --layout L          search only layouts with these keys: tensor=8,pipeline=4,recompute=full\n"},
    {0}};
const tri_option tri_plan_further_rows[] = {
    {TRI_READ("tokens", read_tokens),
     .help = "  --tokens T          also print days and node-hours for T tokens: 300e9, 300B, 15T\n"},
    {TRI_DOUBLE("price", price, 0, 1e6), .help = "  --price P           price of a device for an hour in the currency "
                                                 "of the cluster's file (its `cost`); prints the cost of a step\n"},
    {TRI_HOURS("mtbf", mtbf, 1e-3, 1e9),
     .help = "  --mtbf HOURS        mean time between failures of a node (100d: in days), instead "
             "of that in the cluster's file (its `failures`)\n"},
    {TRI_DOUBLE("storage", storage, 1, 1e15),
     .help =
         "  --storage B         bytes per second at which each node writes checkpoints, instead of "
         "`failures.node_storage_bandwidth`\n"
         "                      of the file; `failures.storage_bandwidth` limits all nodes together; 2e9 if neither is "
         "known\n"},
    {TRI_DOUBLE("node-power", node_power, 0, 1e7),
     .help = "  --node-power W      watts of a node without its devices, instead of those in the file (its `cost`)\n"},
    {TRI_READ("margin", read_margin),
     .help =
         "  --margin M          memory of each device to keep free, for contexts and buffers of libraries: 2GiB, 3%\n"},
    {TRI_READ("precision", read_precision),
     .help = "  --precision P       bf16 (the default, and fp16 too), fp32 or fp64\n"},
    {TRI_PATH("system", system_name),
     .help = "  --system S          trireme (the default), or another system to predict (configs/systems)\n"},
    {TRI_TEXT("optimizer", optimizer),
     .help =
         "  --optimizer NAME    optimizer.name of a run file (default adamw): its states, and its work; galore:RANK\n"},
    {TRI_READ("set", add_set),
     .help = "  --set KEY=VALUE     a run file's key of what is trained and how: adapter.rank=16, "
             "adapter.targets=[q_proj],\n"
             "                      freeze=[\"*norm*\"], optimizer.state=int8; may be repeated\n"},
    {TRI_PATH("lengths", lengths), .help = "  --lengths L         length distribution of the documents (masked "
                                           "attention, data.documents: masked): a corpus, or\n"
                                           "                      what `inspect CORPUS --sequence S --json` printed\n"},
    {TRI_READ("packing", read_packing), .help = "  --packing P         windows (the default) or documents: how these "
                                                "documents are packed into sequences (data.packing)\n"},
    {TRI_DOUBLE("expert-imbalance", expert_imbalance, 1, TRI_ROUTER_EXPERTS),
     .help = "  --expert-imbalance X  rows of the busiest rank's experts: X times those under perfect balance (1)\n"},
    {TRI_FLAG("json", json),
     .help =
         "  --json              one JSON document on standard output: `mfu` is of `model_tflops_per_device`, `hfu` of\n"
         "                      `hardware_tflops_per_device`, which counts recomputed products (older name: "
         "tflops_per_device)\n"},
    {0}};

tri_status tri_plan_options_check_devices(const tri_plan_options *o, int64_t devices) {
  int64_t node = o->cluster.node_devices, below = devices / node * node;
  if (o->cluster.max_devices > 0 && devices > o->cluster.max_devices) {
    return tri_fail(TRI_BAD_USAGE, "--devices is %ld, and %s has %ld (max_devices of its file)", (long)devices,
                    o->cluster.name, (long)o->cluster.max_devices);
  }
  if (devices < node || devices % node == 0) return TRI_OK;
  if (o->cluster.max_devices > 0 && below + node > o->cluster.max_devices) {
    return tri_fail(TRI_BAD_USAGE,
                    "--devices is %ld, which is not a number of whole nodes of %s (%ld devices each); try %ld",
                    (long)devices, o->cluster.name, (long)node, (long)below);
  }
  return tri_fail(TRI_BAD_USAGE,
                  "--devices is %ld, which is not a number of whole nodes of %s (%ld devices each); try %ld or %ld",
                  (long)devices, o->cluster.name, (long)node, (long)below, (long)(below + node));
}

/* Sets the speed of writing checkpoints and the time of a restart to the round values that presets have, if they are
 * unknown. */
static void assume_failures(tri_cluster *cluster) {
  static const double STORAGE = 2e9, RESTART_S = 600;
  tri_failures *failures = &cluster->failures;
  if (failures->storage_bandwidth == 0 && failures->node_storage_bandwidth == 0) {
    failures->node_storage_bandwidth = STORAGE;
    tri_cluster_note_assumed(cluster, "checkpoints at 2 GB/s a node (--storage)");
  }
  if (failures->restart > 0) return;
  failures->restart = RESTART_S;
  tri_cluster_note_assumed(cluster, "600 s to restart");
}

/* Replaces the cluster's price, node power, storage and time between failures by the given options. Fails with
 * TRI_BAD_USAGE if the cluster's file lacks a number that such an option needs. */
static tri_status apply_operation(tri_plan_options *o) {
  tri_failures *failures = &o->cluster.failures;
  if (o->price > 0) o->cluster.cost.price = o->price;
  if (o->mtbf > 0) failures->node_mtbf_hours = o->mtbf;
  if (o->node_power >= 0) o->cluster.cost.node_power = o->node_power;
  if (o->storage > 0) {
    if (failures->node_mtbf_hours == 0)
      return tri_fail(TRI_BAD_USAGE,
                      "--storage is for runs with failures, and the file of %s has no `failures`; give --mtbf, too",
                      o->cluster.name);
    failures->node_storage_bandwidth = o->storage; /* storage_bandwidth still limits all nodes together */
  }
  if (o->mtbf > 0) assume_failures(&o->cluster);
  if (o->node_power < 0 || o->cluster.cost.device_power > 0) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE,
                  "--node-power: the file of %s has no `cost.device_power`, to which it is added; set it there",
                  o->cluster.name);
}

tri_status tri_plan_options_finish(const char *command, tri_plan_options *o) {
  const struct {
    const char *option, *example;
    bool there;
  } wanted[] = {{"--model", "frontier-175b", o->model_name != NULL},
                {"--cluster", "frontier", o->cluster_name != NULL},
                {"--devices", "1024", o->devices > 0},
                {"--global-batch", "640", o->global_batch > 0 || o->batch_tokens > 0}};
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    if (wanted[i].there) continue;
    return tri_fail(TRI_BAD_USAGE, "%s: %s is missing, for example %s %s", command, wanted[i].option, wanted[i].option,
                    wanted[i].example);
  }
  TRI_TRY(tri_model_source_load(o->model_name, &o->model));
  TRI_TRY(tri_cluster_load(o->cluster_name, &o->cluster));
  TRI_TRY(apply_margin(o));
  TRI_TRY(apply_operation(o));
  TRI_TRY(tri_system_load(o->system_name, &o->system));
  TRI_TRY(find_trained(o));
  o->assumed_sequence = o->sequence == 0;
  if (o->assumed_sequence) {
    TRI_TRY(tri_model_assume_sequence(&o->model, TRI_BAD_USAGE, "give --sequence, for example --sequence 4096",
                                      &o->sequence));
  }
  if (o->sequence > o->model.max_sequence) {
    return tri_fail(TRI_BAD_USAGE, "--sequence is %ld, and %s has at most %ld positions (max_sequence)",
                    (long)o->sequence, o->model.name, (long)o->model.max_sequence);
  }
  TRI_TRY(complete_batch(o));
  if (o->lengths != NULL)
    TRI_TRY(
        tri_lengths_attention_fraction(o->lengths, o->sequence, o->packed, &o->masked_attention_fraction, &o->drawn));
  if (o->packed && o->lengths == NULL) {
    return tri_fail(
        TRI_BAD_USAGE,
        "--packing (how documents are packed into sequences) needs --lengths (the lengths of the documents)");
  }
  if (o->expert_imbalance > 0 && o->model.num_experts == 0) {
    return tri_fail(TRI_BAD_USAGE, "--expert-imbalance is for models with experts, and %s has none", o->model.name);
  }
  return tri_plan_options_check_devices(o, o->devices);
}

tri_simulation_request tri_plan_options_request(const tri_plan_options *o, const tri_layout *layout) {
  return (tri_simulation_request){.model = &o->model,
                                  .layout = layout,
                                  .cluster = &o->cluster,
                                  .system = &o->system,
                                  .global_batch = o->global_batch,
                                  .sequence = o->sequence,
                                  .assumed_sequence = o->assumed_sequence,
                                  .precision = o->precision,
                                  .optimizer = &o->trained.optimizer,
                                  .objective = &o->trained.objective.trained,
                                  .masked = o->lengths != NULL,
                                  .masked_attention_fraction = o->masked_attention_fraction,
                                  .drawn = o->drawn.table,
                                  .expert_imbalance = o->expert_imbalance};
}

tri_search_request tri_plan_options_search(const tri_plan_options *o) {
  return (tri_search_request){.model = &o->model,
                              .cluster = &o->cluster,
                              .system = &o->system,
                              .devices = o->devices,
                              .global_batch = o->global_batch,
                              .sequence = o->sequence,
                              .precision = o->precision,
                              .optimizer = &o->trained.optimizer,
                              .objective = &o->trained.objective.trained,
                              .masked = o->lengths != NULL,
                              .masked_attention_fraction = o->masked_attention_fraction,
                              .drawn = o->drawn.table,
                              .expert_imbalance = o->expert_imbalance,
                              .fixed = o->fixed,
                              .top = 1,
                              .progress = true};
}

void tri_plan_options_release(tri_plan_options *o) { tri_length_draws_release(&o->drawn); }
