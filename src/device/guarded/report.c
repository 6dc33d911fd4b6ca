/* The report of a forbidden access: printed by a handler of SIGSEGV, which then lets the signal have its previous
 * effect (a sanitizer's report, a message to the parent, the end).
 *
 * The handler reads data without the lock, while other threads may change them. New items are complete before they are
 * linked. Items that are removed meanwhile can spoil only the report, because the process is ending. */
#include "base/log.h"
#include "device/guarded/internal.h"

#include <signal.h>

enum { TEXT_BYTES = 1 << 13, MOST_QUEUED = 8, ALTERNATE_STACK_BYTES = 1 << 16, NEAR_BYTES = 1 << 16 };

/* State for the signal handler, which can only access globals. */
static struct {
  tri_guarded_state *_Atomic devices;
  pthread_mutex_t lock; /* held by threads that change `devices` */
  struct sigaction before;
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- text, without the C library --------------------------------------------------------------------------------- */

typedef struct words {
  size_t length;
  char text[TEXT_BYTES];
} words;

static void append_report_text(words *to, const char *text) {
  for (; *text != '\0' && to->length + 1 < sizeof to->text; text++) to->text[to->length++] = *text;
}

static void append_number(words *to, uint64_t number, unsigned base) {
  char digits[65] = "";
  char *at = digits + sizeof digits - 1;
  do {
    *--at = "0123456789abcdef"[number % base];
    number /= base;
  } while (number > 0);
  append_report_text(to, at);
}

static void append_work(words *to, const char *what, const tri_origin *origin, uint64_t queue) {
  append_report_text(to, "\n  ");
  append_report_text(to, what);
  if (origin->name != NULL) {
    if (origin->index >= 0) {
      append_report_text(to, " of call ");
      append_number(to, (uint64_t)origin->index, 10);
    }
    append_report_text(to, " (");
    append_report_text(to, origin->name);
    if (origin->pass != NULL) {
      append_report_text(to, ", ");
      append_report_text(to, origin->pass);
    }
    append_report_text(to, ")");
  }
  append_report_text(to, ", queue ");
  append_number(to, queue, 10);
}

/* ---- the report -------------------------------------------------------------------------------------------------- */

/* Returns whether an address is one of the block's bytes in one of its mappings, or close to either end of them.
 * `first` is the address of the first byte in that mapping. */
static bool is_at(const tri_guarded_block *block, const char *first, uintptr_t address) {
  uintptr_t begin = (uintptr_t)first;
  return address + NEAR_BYTES >= begin && address < begin + block->bytes + NEAR_BYTES;
}

static void print_where(words *text, const tri_guarded_block *block, const char *first, uintptr_t address,
                        bool by_kernel) {
  uintptr_t begin = (uintptr_t)first;
  bool before = address < begin;
  append_report_text(text, block->host ? "host memory" : "device memory");
  if (atomic_load(&block->released)) append_report_text(text, " that had been released");
  append_report_text(text, by_kernel ? " was left by a kernel: address 0x" : " was touched by the host: address 0x");
  append_number(text, address, 16);
  append_report_text(text, " is byte ");
  if (before) append_report_text(text, "-");
  append_number(text, before ? begin - address : address - begin, 10);
  append_report_text(text, " of allocation ");
  append_number(text, (uint64_t)block->number, 10);
  append_report_text(text, ", which has ");
  append_number(text, block->bytes, 10);
}

static void print_past(words *text, const tri_guarded_state *state) {
  uint64_t number = state->num_past, some = number < TRI_GUARDED_HISTORY ? number : TRI_GUARDED_HISTORY;
  append_report_text(
      text, some == 0 ? "\n nothing has run on the device" : "\n the last that ran on the device, newest first:");
  for (uint64_t i = 1; i <= some; i++) {
    const tri_guarded_past *past = &state->past[(number - i) % TRI_GUARDED_HISTORY];
    append_work(text, past->what, &past->origin, past->queue);
    if (i == 1 && atomic_load(&state->running)) append_report_text(text, ": it is running");
  }
}

static void print_queued(words *text, const tri_guarded_state *state) {
  for (const tri_guarded_queue *q = atomic_load(&state->queues); q != NULL; q = atomic_load(&q->next)) {
    int said = 0;
    const tri_guarded_work *work = atomic_load(&q->first);
    if (work == NULL) continue;
    append_report_text(text, "\n ");
    append_number(text, q->queued - q->done, 10);
    append_report_text(text, " queued and not yet run in queue ");
    append_number(text, q->queue->number, 10);
    append_report_text(text, ", next first:");
    for (; work != NULL && said < MOST_QUEUED; work = atomic_load(&work->next), said++) {
      append_work(text, work->what, &work->origin, q->queue->number);
    }
  }
}

static bool report(uintptr_t address) {
  for (const tri_guarded_state *s = atomic_load(&watched.devices); s != NULL; s = atomic_load(&s->next_watched)) {
    for (const tri_guarded_block *block = atomic_load(&s->blocks); block != NULL; block = atomic_load(&block->next)) {
      bool given = is_at(block, block->given, address);
      if (!given && !is_at(block, block->open, address)) continue;
      words text = {.length = 0};
      print_where(&text, block, given ? block->given : block->open, address, !given);
      print_past(&text, s);
      print_queued(&text, s);
      tri_log_in_handler(text.text);
      return true;
    }
  }
  return false;
}

/* Prints the report and restores the previous handler, which gets the signal next: the same access fails again, or a
 * signal that a process sent is raised again. */
static void handle_fault(int number, siginfo_t *info, void *unused) {
  (void)unused;
  bool of_an_access = info->si_code > 0;
  if (of_an_access) (void)report((uintptr_t)info->si_addr);
  sigaction(number, &watched.before, NULL);
  if (!of_an_access) raise(number);
}

/* ---- watching ---------------------------------------------------------------------------------------------------- */

/* Installs the handler. It runs on an alternate stack, which is set up if the thread does not have one, because an
 * overflowed stack has no room for it. */
static void install(void) {
  static char stack[ALTERNATE_STACK_BYTES];
  stack_t now;
  struct sigaction before, own = {.sa_sigaction = handle_fault, .sa_flags = (int)(SA_SIGINFO | SA_ONSTACK)};
  sigaction(SIGSEGV, NULL, &before);
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction == handle_fault) return;
  if (sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_DISABLE) != 0) {
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
  }
  watched.before = before;
  sigaction(SIGSEGV, &own, NULL);
}

void tri_guarded_watch(tri_guarded_state *state) {
  pthread_mutex_lock(&watched.lock);
  install();
  atomic_store(&state->next_watched, atomic_load(&watched.devices));
  atomic_store(&watched.devices, state);
  pthread_mutex_unlock(&watched.lock);
}

void tri_guarded_unwatch(tri_guarded_state *state) {
  pthread_mutex_lock(&watched.lock);
  tri_guarded_state *_Atomic *link = &watched.devices;
  while (atomic_load(link) != state) link = &atomic_load(link)->next_watched;
  atomic_store(link, atomic_load(&state->next_watched));
  pthread_mutex_unlock(&watched.lock);
}
