#include "recovery/flight_report.h"

#include "base/clock.h"
#include "base/flight_recorder.h"
#include "base/memory.h"
#include "files/file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT_BYTES = 1 << 22 };

/* ---- this rank --------------------------------------------------------------------------------------------------- */

static void describe_work(const tri_record *record, char *text, size_t size) {
  int length = snprintf(text, size, "%s", record->name);
  if (record->micro_batch >= 0 && length < (int)size) {
    length += snprintf(text + length, size - (size_t)length, " of micro-batch %d", record->micro_batch);
  }
  if (record->bucket >= 0 && length < (int)size) {
    snprintf(text + length, size - (size_t)length, " of bucket %d", record->bucket);
  }
}

int tri_flight_report_index(const tri_mesh *mesh, const char *group) {
  const bool tied = strcmp(group, mesh->tied.name) == 0; /* tri_mesh_domain_of returns the pipeline's domain for it */
  return tied ? TRI_NUM_DOMAINS + 1 : tri_mesh_domain_of(mesh, group);
}

/* Reads the step, the work and the joined collectives from records[count], the oldest first. The work is the newest in
 * progress, or if none is, the newest that has ended. */
static void read_records(const tri_mesh *mesh, const tri_record *records, int count, double now_s,
                         tri_flight_report *out) {
  const tri_record *work = NULL;
  for (int i = 0; i < count; i++) {
    const tri_record *record = &records[i];
    if (record->kind == TRI_RECORD_WORK && (work == NULL || record->end_s == 0 || work->end_s > 0)) work = record;
    if (record->kind != TRI_RECORD_COLLECTIVE) continue;
    int64_t *joined = &out->joined[tri_flight_report_index(mesh, record->group)];
    if ((int64_t)record->number > *joined) *joined = (int64_t)record->number;
  }
  if (count > 0) out->step = records[count - 1].step + 1;
  if (work == NULL) return;
  describe_work(work, out->doing, sizeof out->doing);
  out->doing_s = now_s - (work->end_s > 0 ? work->end_s : work->begin_s);
}

static void read_wait(const tri_mesh *mesh, double now_s, tri_flight_report *out) {
  tri_comm_wait waits = tri_comm_state();
  if (waits.operation == NULL) return;
  snprintf(out->operation, sizeof out->operation, "%s", waits.operation);
  snprintf(out->group, sizeof out->group, "%s", waits.group);
  out->number = (int64_t)waits.number;
  out->bytes = (int64_t)waits.bytes;
  out->waits_s = now_s - waits.since_s;
  if (waits.behind >= 0) out->behind = tri_mesh_world_rank(mesh, waits.group, waits.behind);
}

void tri_flight_report_look(const tri_mesh *mesh, tri_flight_report *out) {
  tri_record records[TRI_RECORDER_NEWEST];
  double now_s = tri_clock_s();
  *out = (tri_flight_report){.behind = -1, .idle_s = now_s - tri_recorder_last_s()};
  read_records(mesh, records, tri_recorder_look(records), now_s, out);
  read_wait(mesh, now_s, out);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static tri_status path_of(const char *folder, int rank, char path[TRI_PATH_BYTES]) {
  char name[32];
  snprintf(name, sizeof name, "rank-%05d.json", rank);
  return tri_path_join(path, folder, name);
}

static json_t *record_json(const tri_record *record, double now_s) {
  json_t *object = json_pack("{s:s, s:I, s:f}", "name", record->name, "step", (json_int_t)record->step + 1,
                             "began_s_ago", now_s - record->begin_s);
  if (record->end_s > 0) {
    json_object_set_new(object, "took_s", json_real(record->end_s - record->begin_s));
  } else {
    json_object_set_new(object, "has_ended", json_false());
  }
  if (record->micro_batch >= 0) json_object_set_new(object, "micro_batch", json_integer(record->micro_batch));
  if (record->chunk >= 0) json_object_set_new(object, "chunk", json_integer(record->chunk));
  if (record->bucket >= 0) json_object_set_new(object, "bucket", json_integer(record->bucket));
  if (record->group == NULL) return object;
  json_object_set_new(object, "group", json_string(record->group));
  json_object_set_new(object, "bytes", json_integer(record->bytes));
  json_object_set_new(object, "background", json_boolean(record->background));
  if (record->kind == TRI_RECORD_COLLECTIVE) {
    json_object_set_new(object, "number", json_integer((json_int_t)record->number));
  } else if (record->kind != TRI_RECORD_PROGRESS) {
    json_object_set_new(object, "peer", json_integer(record->peer));
    json_object_set_new(object, "tag", json_integer(record->tag));
  }
  return object;
}

enum { NUM_GROUPS = sizeof((tri_flight_report *)0)->joined / sizeof *((tri_flight_report *)0)->joined };

/* Returns the name of the group with this index in tri_flight_report.joined. */
static const char *group_name(const tri_mesh *mesh, int index) {
  if (index < TRI_NUM_DOMAINS) return mesh->groups[index].name;
  return index == TRI_NUM_DOMAINS ? mesh->world.name : mesh->tied.name;
}

static json_t *flight_json(const tri_mesh *mesh, const tri_flight_report *flight) {
  char place[128];
  json_t *joined = json_object();
  for (int i = 0; i < NUM_GROUPS; i++)
    json_object_set_new(joined, group_name(mesh, i), json_integer(flight->joined[i]));
  json_t *object = json_pack("{s:i, s:s, s:I, s:f, s:s, s:f, s:o}", "rank", mesh->world.rank, "place",
                             tri_mesh_describe(&mesh->shape, mesh->world.rank, place, sizeof place), "step",
                             (json_int_t)flight->step, "idle_s", flight->idle_s, "doing", flight->doing, "doing_s",
                             flight->doing_s, "newest_collectives", joined);
  if (flight->operation[0] == '\0') return object;
  json_object_set_new(object, "waits_for",
                      json_pack("{s:s, s:s, s:I, s:I, s:i, s:f}", "operation", flight->operation, "group",
                                flight->group, "number", (json_int_t)flight->number, "bytes", (json_int_t)flight->bytes,
                                "rank", flight->behind, "s", flight->waits_s));
  return object;
}

tri_status tri_flight_report_write(const tri_mesh *mesh, const char *folder, const char *asked) {
  tri_record records[TRI_RECORDER_NEWEST];
  char path[TRI_PATH_BYTES];
  tri_flight_report flight;
  TRI_TRY(path_of(folder, mesh->world.rank, path));
  tri_flight_report_look(mesh, &flight);
  double now_s = tri_clock_s();
  int count = tri_recorder_look(records);
  json_t *object = flight_json(mesh, &flight);
  json_t *newest = json_array();
  for (int i = count - 1; i >= 0; i--) json_array_append_new(newest, record_json(&records[i], now_s));
  if (object != NULL) json_object_set_new(object, "newest_first", newest);
  if (object != NULL && asked[0] != '\0') json_object_set_new(object, "asked", json_string(asked));
  char *text = object == NULL ? NULL : json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
  json_decref(object);
  if (text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "no memory to write %s", path);
  tri_status status = tri_file_replace(path, text, strlen(text));
  free(text);
  return status;
}

static void copy_text(const json_t *object, const char *key, char *out, size_t size) {
  const char *text = json_string_value(json_object_get(object, key));
  snprintf(out, size, "%s", text == NULL ? "" : text);
}

bool tri_flight_report_read(const tri_mesh *mesh, const char *folder, int rank, tri_flight_report *out) {
  char path[TRI_PATH_BYTES];
  char *text = NULL;
  size_t bytes = 0;
  if (path_of(folder, rank, path) != TRI_OK || !tri_path_exists(path)) return false;
  if (tri_file_read_plain(path, FILE_LIMIT_BYTES, &text, &bytes) != TRI_OK) return false;
  json_t *object = json_loadb(text, bytes, 0, NULL);
  tri_free(text);
  if (object == NULL) return false;
  const json_t *waits = json_object_get(object, "waits_for"), *joined = json_object_get(object, "newest_collectives");
  *out = (tri_flight_report){.step = json_integer_value(json_object_get(object, "step")),
                             .idle_s = json_real_value(json_object_get(object, "idle_s")),
                             .doing_s = json_real_value(json_object_get(object, "doing_s")),
                             .behind = -1};
  copy_text(object, "asked", out->asked, sizeof out->asked);
  copy_text(object, "doing", out->doing, sizeof out->doing);
  for (int i = 0; i < NUM_GROUPS; i++)
    out->joined[i] = json_integer_value(json_object_get(joined, group_name(mesh, i)));
  if (waits != NULL) {
    copy_text(waits, "operation", out->operation, sizeof out->operation);
    copy_text(waits, "group", out->group, sizeof out->group);
    out->number = json_integer_value(json_object_get(waits, "number"));
    out->bytes = json_integer_value(json_object_get(waits, "bytes"));
    out->behind = (int)json_integer_value(json_object_get(waits, "rank"));
    out->waits_s = json_real_value(json_object_get(waits, "s"));
  }
  json_decref(object);
  return true;
}
