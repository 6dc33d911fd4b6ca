/* `trireme board`: reads the runs, studies and timelines in folders and below them, and serves them to a browser. */
#include "board/board.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stop.h"
#include "board/server.h"
#include "cli/cli.h"
#include "files/write_fault.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

enum { DEFAULT_PORT = 8650 };

#define TRI_OPTION_VALUES tri_http_options
static const tri_option board_options[] = {
    {TRI_INT("port", port, 0, 65535), .help = "  --port N        port to listen on (8650); 0: any free port\n"},
    {TRI_TEXT("host", host),
     .help =
         "  --host ADDRESS  address to listen on (127.0.0.1, reachable from this machine only); 0.0.0.0 is all of\n"
         "                  this machine's addresses. The page's address then contains a secret token. The connection\n"
         "                  is not encrypted; on a network that you do not trust, `ssh -L 8650:127.0.0.1:8650 HOST` "
         "is\n"
         "                  better, and needs no --host\n"},
    {TRI_FLAG("token", wants_token),
     .help = "  --token         require a secret token on 127.0.0.1 too, if others have accounts on this machine\n"},
    {0}};

/* Parses the options. The folders are given[*first] and the words after it. */
static tri_status board_parse(int count, char **given, tri_http_options *out, int *first) {
  const tri_option_table table = {.command = "board", .rows = board_options};
  TRI_TRY(tri_options_parse(&table, count, given, out, first));
  if (*first < count) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "board: which folders? For example: trireme board out");
}

/* Reads new lines twice a second, and looks for new files every two seconds, until a stop is requested; then fails with
 * TRI_INTERRUPTED. As long as there are more lines to read, as at the start, reads them without a pause. */
static tri_status keep_up(tri_board *board) {
  const double look_every_s = 2, read_every_s = 0.5, nap_s = 0.05;
  double look_s = tri_clock_s() + look_every_s, read_s = 0;
  while (!tri_stop_asked()) {
    if (tri_clock_s() >= look_s) {
      TRI_TRY(tri_board_look(board));
      look_s = tri_clock_s() + look_every_s;
    }
    if (tri_clock_s() >= read_s) {
      bool more = tri_board_read(board);
      read_s = tri_clock_s() + (more ? 0 : read_every_s);
    } else {
      tri_pause_s(nap_s);
    }
  }
  return tri_fail(TRI_INTERRUPTED, "the board is closed; the runs continue");
}

static tri_status board_run(int count, char **given) {
  tri_http_options options = {.port = DEFAULT_PORT};
  tri_board *board = NULL;
  tri_http_server *server = NULL;
  tri_status status = TRI_OK;
  int first = 0;
  TRI_TRY(board_parse(count, given, &options, &first));
  TRI_TRY(tri_stop_listen("the board is closed"));
  tri_stop_defer("interrupted twice, so it ends at once");
  signal(SIGPIPE, SIG_IGN); /* so that a browser which closes its connection does not end the board */
  TRI_TRY(tri_board_create((const char *const *)given + first, count - first, &board));
  TRI_TRY_GOTO(tri_board_look(board), destroy);
  TRI_TRY_GOTO(tri_board_serve(&options, board, &server), destroy);
  printf("%s\n", tri_http_server_address(server));
  if (fflush(stdout) != 0) { /* without the address the user cannot open the board */
    status = tri_fail(TRI_IO_FAILED, "cannot write to standard output: %s", tri_write_fault(errno));
    goto stop;
  }
  tri_log("the board is at the address above until this is interrupted (Ctrl-C)");
  status = keep_up(board);
stop:
  tri_http_server_stop(server);
destroy:
  tri_board_destroy(board);
  return status;
}

const tri_command tri_command_board = {
    .name = "board",
    .summary = "show runs, studies and timelines in a browser while they run",
    .usage =
        "usage: trireme board FOLDER... [--port N] [--host ADDRESS] [--token]\n"
        "\n"
        "Serves a page about the folders and all folders below them: runs (outputs of `trireme train`), studies\n"
        "(stores of `trireme tune`) and timelines (`--timeline`). The page is updated as files grow, needs no network\n"
        "and loads nothing; the folders are only read. The address is the one line on standard output; Ctrl-C ends "
        "it.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme board out\n",
    .holds_signals = true,
    .options = board_options,
    .run = board_run,
};
