/* A job *waits* in the queue until fewer texts are in progress than all replicas have places. Then its prompts are
 * given to the dispatcher, and it *runs* until its last text has ended. */
#include "serve/engine.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/stop.h"
#include "serve/job.h"
#include "serve/metrics.h"
#include "serve/replies.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Time between two looks at a request to stop, while there is nothing to do. */
enum { IDLE_MS = 200 };

typedef struct engine {
  tri_serve_front *front;
  tri_serve_job *running; /* list of the jobs that run */
  int64_t texts;          /* texts in progress */
  bool closes;            /* whether this process was asked to stop */
} engine;

/* ---- the queue --------------------------------------------------------------------------------------------------- */

/* Removes and returns the first job that waits; NULL: none. */
static tri_serve_job *pop_job(tri_serve_front *front) {
  pthread_mutex_lock(&front->mutex);
  tri_serve_job *job = front->first;
  if (job != NULL) {
    front->first = job->next;
    if (front->first == NULL) front->last = NULL;
    front->counters.waiting--;
  }
  pthread_mutex_unlock(&front->mutex);
  return job;
}

static void count_one(tri_serve_front *front, int64_t *counter) {
  pthread_mutex_lock(&front->mutex);
  ++*counter;
  pthread_mutex_unlock(&front->mutex);
}

/* Sleeps until a job is appended, for a fifth of a second at most. */
static void wait_for_job(tri_serve_front *front) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += IDLE_MS * 1000000L;
  if (until.tv_nsec >= 1000000000L) until.tv_sec++, until.tv_nsec -= 1000000000L;
  pthread_mutex_lock(&front->mutex);
  if (front->first == NULL) (void)pthread_cond_timedwait(&front->wake, &front->mutex, &until);
  pthread_mutex_unlock(&front->mutex);
}

/* ---- the end of a job -------------------------------------------------------------------------------------------- */

/* Replies with an error to a job that has no reply yet, or ends its stream with the error. */
static void fail_job(tri_serve_job *job, int code, const char *message) {
  if (job->begun) {
    tri_serve_stream_fail(job, code, message);
    return;
  }
  tri_http_reply reply = tri_serve_error(code, message, NULL);
  tri_http_send(job->request, &reply);
}

static tri_status send_answer(tri_serve_job *job) {
  json_t *answer = tri_serve_answer(job);
  if (answer == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: an answer");
  tri_http_reply reply = tri_serve_json(200, answer);
  if (job->fields.ignored[0] != '\0') {
    reply.headers[0].name = "X-Ignored-Fields";
    memcpy(reply.headers[0].value, job->fields.ignored, sizeof job->fields.ignored);
  }
  tri_http_send(job->request, &reply);
  return TRI_OK;
}

/* ---- callbacks of texts ------------------------------------------------------------------------------------------ */

static void note_token(tri_serve_job *job) {
  tri_serve_counters *counters = &job->front->counters;
  pthread_mutex_lock(&job->front->mutex);
  counters->sampled_tokens++;
  if (job->first_token_s == 0) {
    job->first_token_s = tri_clock_s();
    const double delay_s = job->first_token_s - job->accepted_s;
    int i = 0;
    while (i < TRI_SERVE_DELAYS && delay_s > tri_serve_delays[i]) i++;
    counters->delays[i]++;
    counters->delays_s += delay_s;
  }
  pthread_mutex_unlock(&job->front->mutex);
}

static tri_status text_grew(void *context, tri_written *text) {
  tri_serve_job *job = context;
  if (text->finish != TRI_FINISH_NONE) return TRI_OK; /* text_done is called next, for the whole text */
  note_token(job);
  return job->fields.stream ? tri_serve_stream_text(job, text, false) : TRI_OK;
}

/* Returns whether the text ended with a token that ends it, for which text_grew is not called. */
static bool ends_with_token(const tri_written *text) {
  const int64_t sampled = text->tokens.count - text->prompt_tokens;
  return sampled > text->made;
}

static tri_status text_done(void *context, tri_written *text) {
  tri_serve_job *job = context;
  if (ends_with_token(text)) note_token(job);
  job->left--;
  return job->fields.stream ? tri_serve_stream_text(job, text, true) : TRI_OK;
}

/* Notes the failure of a job; the first one counts. Its other texts are cancelled after the step. */
static void note_failure(tri_serve_job *job, tri_status status) {
  if (job->failed != TRI_OK) return;
  job->failed = status;
  job->failure = strdup(tri_status_message());
}

static tri_status text_failed(void *context, tri_written *text) {
  tri_serve_job *job = context;
  (void)text;
  job->left--;
  note_failure(job, TRI_DIVERGED);
  return TRI_OK;
}

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

/* Starts the texts of a job, adds the job to those that run, and counts it. The job fails, and the server goes on, if
 * the generator refuses a text. */
static tri_status start_job(engine *e, tri_serve_job *job) {
  const int64_t samples = job->fields.best_of;
  for (int64_t i = 0; i < job->num_texts; i++) {
    job->texts[i].grew = text_grew;
    job->texts[i].done = text_done;
    job->texts[i].failed = text_failed;
  }
  e->texts += job->num_texts;
  job->next = e->running;
  e->running = job;
  pthread_mutex_lock(&e->front->mutex);
  e->front->counters.running++;
  for (int64_t p = 0; p < job->num_prompts; p++)
    e->front->counters.prompt_tokens += job->texts[p * samples].prompt_tokens;
  pthread_mutex_unlock(&e->front->mutex);
  for (int64_t p = 0; p < job->num_prompts; p++) {
    const tri_status status = tri_written_start_samples(&job->texts[p * samples], samples);
    if (status != TRI_BAD_USAGE && status != TRI_UNSUPPORTED) TRI_TRY(status);
    if (status != TRI_OK) note_failure(job, status);
  }
  return TRI_OK;
}

/* Starts waiting jobs while there are places. Removes those whose client has left, and refuses all once the server
 * ends. Starts none while requests must wait for a newer checkpoint (tri_serve_follow_waits). */
static tri_status start_jobs(engine *e) {
  const tri_serve_follow *follow = e->front->follow;
  if (!e->closes && follow != NULL && tri_serve_follow_waits(follow)) return TRI_OK;
  while (e->closes || e->texts < e->front->batch) {
    tri_serve_job *job = pop_job(e->front);
    if (job == NULL) break;
    if (tri_http_has_left(job->request)) {
      count_one(e->front, &e->front->counters.cancelled);
      tri_serve_job_destroy(job);
    } else if (e->closes) {
      count_one(e->front, &e->front->counters.failed);
      fail_job(job, 503, "the server ends");
      tri_serve_job_destroy(job);
    } else {
      TRI_TRY(start_job(e, job));
    }
  }
  return TRI_OK;
}

/* Cancels the texts of a job whose client has left, or that has failed. */
static tri_status cancel_job(tri_serve_job *job) {
  job->fields.stream = false; /* nothing is sent of its texts any more */
  for (int64_t i = 0; i < job->num_texts; i++) TRI_TRY(tri_written_cancel(&job->texts[i]));
  job->left = 0; /* texts whose prompt was being read are not started */
  return TRI_OK;
}

static void note_pages(const engine *e) {
  const tri_generator_counts counts = tri_generator_count(e->front->generation->generator);
  pthread_mutex_lock(&e->front->mutex);
  e->front->counters.free_pages = counts.free_pages;
  e->front->counters.found_tokens = counts.found_rows;
  pthread_mutex_unlock(&e->front->mutex);
}

/* Replies to a job that has failed. */
static void send_failure(tri_serve_job *job) {
  fail_job(job, tri_serve_code(job->failed), job->failure == NULL ? "the request failed" : job->failure);
}

/* Ends a job whose texts have all ended: removes it from the list, sends the answer, the end of the stream or the
 * failure, unless the client has left (`left`), and destroys it. The job is counted before the client has its answer,
 * so that a client sees it in /metrics. */
static tri_status finish_job(engine *e, tri_serve_job **at, bool left) {
  tri_serve_job *job = *at;
  tri_serve_counters *counters = &e->front->counters;
  const bool failed = job->failed != TRI_OK;
  tri_status status = TRI_OK;
  *at = job->next;
  e->texts -= job->num_texts;
  note_pages(e);
  pthread_mutex_lock(&e->front->mutex);
  counters->running--;
  ++*(left ? &counters->cancelled : failed ? &counters->failed : &counters->completed);
  pthread_mutex_unlock(&e->front->mutex);
  if (!left && failed) send_failure(job);
  if (!left && !failed) status = job->fields.stream ? tri_serve_stream_end(job) : send_answer(job);
  tri_serve_job_destroy(job);
  return status;
}

/* Sends a comment in a stream that has been silent, so that proxies do not close it. */
static tri_status ping(tri_serve_job *job) {
  static const char comment[] = ": ping\n\n";
  if (!job->fields.stream || tri_clock_s() - job->written_s < job->front->ping_s) return TRI_OK;
  TRI_TRY(tri_serve_stream_begin(job));
  tri_http_add(job->request, comment, sizeof comment - 1);
  tri_http_flush(job->request);
  job->written_s = tri_clock_s();
  return TRI_OK;
}

/* Goes over all jobs that run: sends the events that the step has added to streams, and ends the jobs that are done or
 * have failed, or whose client has left. */
static tri_status check_jobs(engine *e) {
  for (tri_serve_job *job = e->running; job != NULL; job = job->next) {
    if (job->begun) tri_http_flush(job->request);
  }
  for (tri_serve_job **at = &e->running; *at != NULL;) {
    tri_serve_job *job = *at;
    const bool left = job->left > 0 && tri_http_has_left(job->request);
    if (left || (job->left > 0 && job->failed != TRI_OK)) TRI_TRY(cancel_job(job));
    if (job->left == 0) {
      TRI_TRY(finish_job(e, at, left));
    } else {
      TRI_TRY(ping(job));
      at = &job->next;
    }
  }
  return TRI_OK;
}

/* Keeps streams alive whose jobs wait, and removes waiting jobs whose client has left. HTTP's threads append to the
 * queue meanwhile, so the mutex is locked; a ping is short. */
static tri_status check_queue(engine *e) {
  tri_serve_front *front = e->front;
  tri_serve_job *left = NULL;
  tri_status status = TRI_OK;
  pthread_mutex_lock(&front->mutex);
  for (tri_serve_job **at = &front->first; *at != NULL && status == TRI_OK;) {
    tri_serve_job *job = *at;
    if (tri_http_has_left(job->request)) {
      *at = job->next;
      job->next = left;
      left = job;
      front->counters.waiting--;
      front->counters.cancelled++;
    } else {
      status = ping(job);
      at = &job->next;
    }
  }
  front->last = front->first;
  while (front->last != NULL && front->last->next != NULL) front->last = front->last->next;
  pthread_mutex_unlock(&front->mutex);
  while (left != NULL) {
    tri_serve_job *next = left->next;
    tri_serve_job_destroy(left);
    left = next;
  }
  return status;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* Loads a newer checkpoint of the run that is followed, if there is one and no text is in progress. */
static tri_status follow_run(engine *e) {
  tri_serve_follow *follow = e->front->follow;
  if (follow == NULL || e->closes) return TRI_OK;
  tri_serve_follow_look(follow, e->front->generation);
  if (follow->path[0] == '\0' || e->running != NULL) return TRI_OK;
  return tri_serve_follow_load(follow, e->front->generation);
}

/* Runs one iteration of the loop: starts jobs that wait, and makes one step of the jobs that run. If no job runs, waits
 * for one. Once a stop is requested, new requests are refused, and the jobs that wait fail. Also loads a newer
 * checkpoint of the run that the server follows. */
static tri_status turn(engine *e) {
  bool more = false;
  if (!e->closes && tri_stop_asked()) {
    e->closes = true;
    pthread_mutex_lock(&e->front->mutex);
    e->front->closing = true;
    pthread_mutex_unlock(&e->front->mutex);
    if (e->running != NULL) tri_log("stopping: the requests that run are finished first");
  }
  TRI_TRY(follow_run(e));
  TRI_TRY(start_jobs(e));
  if (e->running == NULL) {
    if (!e->closes) wait_for_job(e->front);
    return TRI_OK;
  }
  TRI_TRY(tri_dispatcher_step(e->front->generation->dispatcher, &more));
  TRI_TRY(check_jobs(e));
  note_pages(e);
  return check_queue(e);
}

/* Refuses new requests, replies to all jobs with the error, and destroys them, after a failure of the engine. */
static void give_up(engine *e) {
  char message[512];
  memcpy(message, tri_status_message(), strnlen(tri_status_message(), sizeof message - 1) + 1);
  message[sizeof message - 1] = '\0';
  pthread_mutex_lock(&e->front->mutex);
  e->front->closing = true;
  pthread_mutex_unlock(&e->front->mutex);
  for (tri_serve_job *job = pop_job(e->front); job != NULL; job = pop_job(e->front)) {
    count_one(e->front, &e->front->counters.failed);
    fail_job(job, 503, message);
    tri_serve_job_destroy(job);
  }
  while (e->running != NULL) {
    tri_serve_job *job = e->running;
    e->running = job->next;
    count_one(e->front, &e->front->counters.failed);
    fail_job(job, 503, message);
    tri_serve_job_destroy(job);
  }
}

tri_status tri_serve_run(tri_serve_front *front) {
  engine e = {.front = front};
  tri_status status = TRI_OK;
  bool more = false;
  while (status == TRI_OK && !(e.closes && e.running == NULL && front->first == NULL)) status = turn(&e);
  if (status != TRI_OK) {
    give_up(&e);
    tri_dispatcher_give_up(front->generation->dispatcher, status);
    return status;
  }
  TRI_TRY(tri_dispatcher_dismiss(front->generation->dispatcher));
  return tri_generation_reload(front->generation, NULL, &more);
}
