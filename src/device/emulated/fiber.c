#include "device/emulated/fiber.h"

#include "base/memory.h"
#include "base/sanitizer.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if TRI_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define FIBER_VALGRIND 1
#endif
#endif

#if TRI_ADDRESS_SANITIZER
enum { STACK_BYTES = 1 << 18 }; /* AddressSanitizer's frames are several times as large */
#else
enum { STACK_BYTES = 1 << 16 };
#endif

typedef struct one {
#if defined(__x86_64__)
  void *stack_pointer;
#else
  ucontext_t context;
#endif
  void (*entry)(void *argument);
  void *argument;
  void *fake_stack; /* AddressSanitizer's second stack of the fiber */
  unsigned valgrind_id;
} one;

struct tri_fiber {
  int count;
  size_t bytes; /* bytes of a stack and its guard */
  char *stacks; /* each stack is above an inaccessible page */
#if defined(__x86_64__)
  void *home; /* stack pointer of the thread that entered */
#else
  ucontext_t home;
#endif
  void *home_fake_stack;  /* AddressSanitizer's second stack of the thread that entered */
  bool closing;           /* whether a fiber that leaves gives back its second stack */
  const void *home_stack; /* stack of the thread that entered */
  size_t home_bytes;      /* size of home_stack */
  one fibers[];
};

static size_t guard_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static char *stack_of(const tri_fiber *f, int which) { return f->stacks + (size_t)which * f->bytes + guard_bytes(); }

tri_status tri_fibers_create(int count, tri_fiber **out) {
  tri_fiber *f = NULL;
  TRI_TRY(tri_alloc("fibers", 1, sizeof *f + (size_t)count * sizeof(one), &f));
  f->count = count;
  f->bytes = guard_bytes() + STACK_BYTES;
  f->stacks =
      mmap(NULL, (size_t)count * f->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (f->stacks == MAP_FAILED) {
    tri_free(f);
    return tri_fail(TRI_OUT_OF_MEMORY, "the system does not give the stacks of %d fibers", count);
  }
  for (int i = 0; i < count; i++) {
    mprotect(f->stacks + (size_t)i * f->bytes, guard_bytes(), PROT_NONE);
#ifdef FIBER_VALGRIND
    f->fibers[i].valgrind_id = (unsigned)VALGRIND_STACK_REGISTER(stack_of(f, i), stack_of(f, i) + STACK_BYTES);
#endif
  }
  *out = f;
  return TRI_OK;
}

static void give_back_fake_stacks(tri_fiber *f);

void tri_fibers_destroy(tri_fiber *f) {
  if (f == NULL) return;
  give_back_fake_stacks(f);
#ifdef FIBER_VALGRIND
  for (int i = 0; i < f->count; i++) VALGRIND_STACK_DEREGISTER(f->fibers[i].valgrind_id);
#endif
  munmap(f->stacks, (size_t)f->count * f->bytes);
  tri_free(f);
}

/* ---- notifications to AddressSanitizer --------------------------------------------------------------------------- */

static void about_to_enter(tri_fiber *f, int which) {
#if TRI_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&f->home_fake_stack, stack_of(f, which), STACK_BYTES);
#else
  (void)f;
  (void)which;
#endif
}

static void entered(tri_fiber *f, int which) {
#if TRI_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(f->fibers[which].fake_stack, &f->home_stack, &f->home_bytes);
#else
  (void)f;
  (void)which;
#endif
}

/* Announces a switch from a fiber. If AddressSanitizer detects use after return, each fiber has a second stack, which
 * takes several system calls to create; so a fiber keeps it when it is reused. */
static void about_to_leave(tri_fiber *f, int which) {
#if TRI_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(f->closing ? NULL : &f->fibers[which].fake_stack, f->home_stack, f->home_bytes);
#else
  (void)f;
  (void)which;
#endif
}

static void left(tri_fiber *f) {
#if TRI_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(f->home_fake_stack, NULL, NULL);
#else
  (void)f;
#endif
}

/* ---- switching --------------------------------------------------------------------------------------------------- */

static void run(tri_fiber *f, int which) {
  entered(f, which);
  f->fibers[which].entry(f->fibers[which].argument);
  __builtin_unreachable();
}

#if defined(__x86_64__)

/* Pushes the callee-saved registers, stores the stack pointer in *from, and restores both from `to`. The floating-point
 * control words are the same in all fibers. */
void tri_fiber_switch(void **from, void *to);
__asm__(
    ".pushsection .text\n"
    ".globl tri_fiber_switch\n"
    ".type tri_fiber_switch, @function\n"
    "tri_fiber_switch:\n"
    "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
    "  mov %rsp, (%rdi)\n"
    "  mov %rsi, %rsp\n"
    "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
    "  ret\n"
    ".size tri_fiber_switch, .-tri_fiber_switch\n"
    /* Entry of a fiber: its function and its two arguments have been stored in the slots of %r13, %rbx and %r12. */
    ".globl tri_fiber_first\n"
    ".type tri_fiber_first, @function\n"
    "tri_fiber_first:\n"
    "  mov %rbx, %rdi\n"
    "  mov %r12, %rsi\n"
    "  xor %ebp, %ebp\n"
    "  call *%r13\n"
    "  ud2\n"
    ".size tri_fiber_first, .-tri_fiber_first\n"
    ".popsection\n");
void tri_fiber_first(void);

static void run_number(tri_fiber *f, intptr_t which) { run(f, (int)which); }

/* Returns the bytes at the top of a fiber's stack that stay unused. Stacks are a whole number of pages apart:
 * without an offset, the used parts of all stacks would map to a few sets of the cache. */
static size_t stagger_bytes(int which) { return (size_t)(which % 16) * 256; }

enum { POPPED = 6 }; /* r15, r14, r13, r12, rbx, rbp, in that order */

static void prepare(tri_fiber *f, int which) {
  void **top = (void **)(void *)(stack_of(f, which) + STACK_BYTES - stagger_bytes(which)) - 2;
  void *values[POPPED + 1] = {NULL, NULL, (void *)(uintptr_t)run_number,     (void *)(intptr_t)which,
                              f,    NULL, (void *)(uintptr_t)tri_fiber_first};
  top -= POPPED + 1; /* after the switch returns, the stack is aligned as before a call */
  memcpy(top, values, sizeof values);
  f->fibers[which].stack_pointer = top;
}

static void go(tri_fiber *f, int which) { tri_fiber_switch(&f->home, f->fibers[which].stack_pointer); }
static void go_home(tri_fiber *f, int which) { tri_fiber_switch(&f->fibers[which].stack_pointer, f->home); }

#else

static void run_pieces(unsigned high, unsigned low, unsigned which) {
  run((tri_fiber *)(uintptr_t)((uint64_t)high << 32 | low), (int)which);
}

static void prepare(tri_fiber *f, int which) {
  ucontext_t *context = &f->fibers[which].context;
  getcontext(context);
  context->uc_stack = (stack_t){.ss_sp = stack_of(f, which), .ss_size = STACK_BYTES};
  context->uc_link = NULL;
  makecontext(context, (void (*)(void))run_pieces, 3, (unsigned)((uint64_t)(uintptr_t)f >> 32), (unsigned)(uintptr_t)f,
              (unsigned)which);
}

static void go(tri_fiber *f, int which) { swapcontext(&f->home, &f->fibers[which].context); }
static void go_home(tri_fiber *f, int which) { swapcontext(&f->fibers[which].context, &f->home); }

#endif

void tri_fiber_begin(tri_fiber *f, int which, void (*entry)(void *argument), void *argument) {
  f->fibers[which].entry = entry;
  f->fibers[which].argument = argument;
#if TRI_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(stack_of(f, which), STACK_BYTES); /* remains of an interrupted run */
#endif
  prepare(f, which);
}

void tri_fiber_enter(tri_fiber *f, int which) {
  about_to_enter(f, which);
  go(f, which);
  left(f);
}

void tri_fiber_leave(tri_fiber *f, int which) {
  about_to_leave(f, which);
  go_home(f, which);
  entered(f, which);
}

/* ---- release of AddressSanitizer's stacks ------------------------------------------------------------------------ */

#if TRI_ADDRESS_SANITIZER
typedef struct ending {
  tri_fiber *fibers;
  int which;
} ending;

static void end(void *argument) {
  const ending *e = argument;
  tri_fiber_leave(e->fibers, e->which);
}

static void give_back_fake_stacks(tri_fiber *f) {
  f->closing = true;
  for (int i = 0; i < f->count; i++) {
    ending own = {f, i};
    if (f->fibers[i].fake_stack == NULL) continue;
    tri_fiber_begin(f, i, end, &own);
    tri_fiber_enter(f, i);
  }
}
#else
static void give_back_fake_stacks(tri_fiber *f) { (void)f; }
#endif
