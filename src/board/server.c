/* Replies to requests about a board. The page itself loads nothing from elsewhere, and pages of other origins may not
 * use the replies. The page and all answers require the server's token, if it has one; the page's scripts and styles do
 * not. */
#include "board/server.h"

#include "http/exposition.h"
#include "http/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const headers[][2] = {
    {"Cache-Control", "no-store"},
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
};

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Returns the number with the key in the request; `fallback` if it is missing, not a number, or out of range. */
static double asked_number(const tri_http_request *from, const char *key, double fallback, double low, double high) {
  const char *text = tri_http_argument(from, key);
  char *end = NULL;
  double value = text == NULL ? NAN : strtod(text, &end);
  return text != NULL && end != text && *end == '\0' && value >= low && value <= high ? value : fallback;
}

static tri_board_axis asked_axis(const tri_http_request *from) {
#define AXIS_WORD(VALUE, word) #word,
  static const char *const words[] = {TRI_BOARD_AXES(AXIS_WORD)};
  const char *text = tri_http_argument(from, "x");
  for (size_t i = 0; text != NULL && i < sizeof words / sizeof *words; i++) {
    if (strcmp(text, words[i]) == 0) return (tri_board_axis)i;
  }
  return TRI_BOARD_AXIS_STEP;
}

/* Parses the numbers of runs in the request, such as "3,0,12", up to the first fault. Returns how many there are. */
static int64_t asked_runs(const tri_http_request *from, int64_t runs[TRI_BOARD_MOST_RUNS]) {
  const char *text = tri_http_argument(from, "runs");
  int64_t count = 0;
  while (text != NULL && count < TRI_BOARD_MOST_RUNS) {
    char *end = NULL;
    long long number = strtoll(text, &end, 10);
    if (end == text) break;
    runs[count++] = number;
    if (*end != ',') break;
    text = end + 1;
  }
  return count;
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static int code_of(tri_status status) {
  if (status == TRI_BAD_USAGE) return 404;
  if (status == TRI_OUT_OF_MEMORY) return 500;
  return 503;
}

static tri_http_reply reply_of(tri_status status, const tri_answer *answer, const char *type) {
  if (status != TRI_OK) return tri_http_words(code_of(status), tri_status_message());
  return (tri_http_reply){
      .code = 200, .type = type, .text = answer->text, .bytes = answer->bytes, .memory = TRI_HTTP_GIVEN};
}

static tri_http_reply reply_with_series(tri_board *board, const tri_http_request *from) {
  tri_answer answer = {0};
  int64_t runs[TRI_BOARD_MOST_RUNS];
  int64_t num_runs = asked_runs(from, runs);
  tri_bucket_request request = {
      .axis = asked_axis(from),
      .from = asked_number(from, "from", NAN, -1e300, 1e300),
      .to = asked_number(from, "to", NAN, -1e300, 1e300),
      .points = (int64_t)asked_number(from, "points", 300, 1, TRI_BOARD_MOST_POINTS),
      .smoothing = asked_number(from, "smoothing", 1, 1, 1e9),
  };
  const tri_status status = tri_board_answer_series(board, &request, runs, num_runs, &answer);
  return reply_of(status, &answer, "application/json");
}

typedef tri_status one_answer(tri_board *board, int64_t number, tri_answer *out);

static tri_http_reply reply_with_one(tri_board *board, const tri_http_request *from, one_answer *answer_of,
                                     const char *type) {
  tri_answer answer = {0};
  const int64_t number = (int64_t)asked_number(from, "id", -1, 0, 1e9);
  return reply_of(answer_of(board, number, &answer), &answer, type);
}

static tri_http_reply reply_with_list(tri_board *board) {
  tri_answer answer = {0};
  return reply_of(tri_board_answer_list(board, &answer), &answer, "application/json");
}

static tri_http_reply reply_with_metrics(tri_board *board) {
  tri_answer answer = {0};
  return reply_of(tri_board_answer_metrics(board, &answer), &answer, TRI_EXPOSITION_TYPE);
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static tri_http_reply reply_to(void *context, tri_http_request *from) {
  static const char wants_token[] =
      "This board requires its token: open the address that `trireme board` has printed.\n";
  tri_board *board = context;
  const char *path = tri_http_path(from);
  const tri_page_file *file = tri_page_find(tri_board_page, path, "board.html");
  const bool is_page = file != NULL && strcmp(file->name, "board.html") == 0;
  if ((file == NULL || is_page) && tri_http_key(from) < 0) return tri_http_words(403, wants_token);
  if (file != NULL) return tri_page_reply(file);
  if (strcmp(path, "/metrics") == 0) return reply_with_metrics(board);
  if (strcmp(path, "/api/list") == 0) return reply_with_list(board);
  if (strcmp(path, "/api/series") == 0) return reply_with_series(board, from);
  if (strcmp(path, "/api/run") == 0) return reply_with_one(board, from, tri_board_answer_run, "application/json");
  if (strcmp(path, "/api/study") == 0) return reply_with_one(board, from, tri_board_answer_study, "application/json");
  if (strcmp(path, "/api/timeline") == 0)
    return reply_with_one(board, from, tri_board_answer_timeline, "application/json");
  if (strcmp(path, "/api/picture") == 0) return reply_with_one(board, from, tri_board_answer_picture, "image/svg+xml");
  return tri_http_words(404, "Not found.\n");
}

tri_status tri_board_serve(const tri_http_options *options, tri_board *board, tri_http_server **out) {
  const tri_http_service service = {
      .command = "board",
      .reply = reply_to,
      .context = board,
      .headers = headers,
      .num_headers = sizeof headers / sizeof *headers,
      .of_other_host =
          "This board can be opened only at its own address: http://127.0.0.1 or http://localhost with its port.\n",
      .of_other_method = "This board is read-only.\n",
      /* A browser keeps a connection for its next request. */
      .limits = {.connections = 64,
                 .of_one_machine = 32,
                 .idle_s = 30,
                 .threads = 2,
                 .clients = {.most = 40, .request_s = 45, .answer_s = 30, .slowest_bytes_s = 32768}},
  };
  return tri_http_server_start(options, &service, out);
}
