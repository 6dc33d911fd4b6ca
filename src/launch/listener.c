#include "launch/listener.h"

#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Seconds after which a connection that has not sent its token is closed. */
static const double hello_s = 60;

enum { PACKET_BYTES = TRI_PARENT_TEXT_BYTES + (int)sizeof(tri_parent_head), BACKLOG = 4096 };

/* Chooses random names. All users can list the names of local sockets, but not the token. */
static tri_status choose_names(tri_listener *listener) {
  uint64_t chance[3];
  if (getrandom(chance, sizeof chance, 0) != (ssize_t)sizeof chance) {
    return tri_fail(TRI_IO_FAILED, "cannot get random numbers from the system: %s", strerror(errno));
  }
  snprintf(listener->name, sizeof listener->name, "trireme-%ld-%016llx", (long)getpid(), (unsigned long long)chance[0]);
  snprintf(listener->token, sizeof listener->token, "%016llx%016llx", (unsigned long long)chance[1],
           (unsigned long long)chance[2]);
  return TRI_OK;
}

tri_status tri_listener_open(tri_listener *out) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  *out = (tri_listener){.socket = -1};
  TRI_TRY(choose_names(out));
  TRI_TRY(tri_alloc("messages of ranks", PACKET_BYTES + 1, 1, &out->packet));
  size_t length = strlen(out->name);
  memcpy(address.sun_path + 1, out->name, length); /* an abstract name, which disappears with its socket */
  socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
  out->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (out->socket < 0 || bind(out->socket, (struct sockaddr *)&address, bytes) != 0 ||
      listen(out->socket, BACKLOG) != 0) {
    return tri_fail(TRI_IO_FAILED, "cannot make a socket for the ranks: %s", strerror(errno));
  }
  return TRI_OK;
}

void tri_listener_close(tri_listener *listener) {
  for (size_t i = 0; i < listener->count; i++) {
    if (listener->speakers[i].socket >= 0) close(listener->speakers[i].socket);
  }
  if (listener->socket >= 0) close(listener->socket);
  tri_free(listener->speakers);
  tri_free(listener->packet);
  *listener = (tri_listener){.socket = -1};
}

void tri_listener_environment(const tri_listener *listener, int beat_ms, const char *folder, char *out, size_t bytes) {
  char machine[TRI_MACHINE_BYTES];
  (void)tri_parent_machine(machine);
  snprintf(out, bytes, "%s %s %d %s %s", listener->name, listener->token, beat_ms, machine, folder);
}

void tri_listener_send(const tri_speaker *to, char word) {
  if (to->socket >= 0) (void)!send(to->socket, &word, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Sends this process's standard input and output. */
static void give_streams(const tri_speaker *to) {
  const int streams[2] = {STDIN_FILENO, STDOUT_FILENO};
  char word = TRI_PARENT_GIVE;
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof streams)];
  } control = {.bytes = {0}};
  struct iovec part = {&word, 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  control.head =
      (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof streams)};
  memcpy(CMSG_DATA(&control.head), streams, sizeof streams);
  (void)!sendmsg(to->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

size_t tri_listener_num_polled(const tri_listener *listener) { return listener->count + 1; }

/* Fills the array for poll. A connection that cannot be accepted stays in the queue, and poll would return at once
 * every time; so the listening socket is left out of one poll after a failure. */
void tri_listener_fill(tri_listener *listener, struct pollfd *polled) {
  for (size_t i = 0; i < listener->count; i++) {
    polled[i] = (struct pollfd){.fd = listener->speakers[i].socket, .events = POLLIN};
  }
  polled[listener->count] = (struct pollfd){.fd = listener->full ? -1 : listener->socket, .events = POLLIN};
  listener->full = false;
}

static bool read_hello(const tri_listener *listener, tri_speaker *from, int pid, const char *text) {
  char token[40];
  long long rank, num_local;
  if (sscanf(text, "%39s %lld %lld %63s", token, &rank, &num_local, from->host) < 3 ||
      strcmp(token, listener->token) != 0)
    return false;
  from->known = true;
  from->pid = pid;
  from->rank = rank;
  from->num_local = num_local;
  if (rank == 0 && listener->gives_streams) give_streams(from);
  return true;
}

static void hang_up(tri_speaker *speaker) {
  close(speaker->socket);
  speaker->socket = -1;
  speaker->waits = false;
}

static void hear_speaker(tri_listener *listener, tri_speaker *from, tri_hearing hear, void *context) {
  while (from->socket >= 0) {
    tri_parent_head head;
    ssize_t got = recv(from->socket, listener->packet, PACKET_BYTES, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      hang_up(from);
      if (from->known) hear(context, from, true, TRI_PARENT_LEAVE, 0, "");
      return;
    }
    if (got < (ssize_t)sizeof head) continue;
    memcpy(&head, listener->packet, sizeof head);
    listener->packet[got] = '\0';
    const char *text = listener->packet + sizeof head;
    from->silent_s = 0;
    if (from->known) {
      hear(context, from, false, (tri_parent_kind)head.kind, head.number, text);
    } else if (head.kind != TRI_PARENT_HELLO || !read_hello(listener, from, head.number, text)) {
      hang_up(from);
    }
  }
}

/* Returns whether the connection comes from a process of this user, or of root. Other users can connect, too, because
 * they can list the names of local sockets. */
static bool is_own(int caller) {
  struct ucred peer;
  socklen_t bytes = sizeof peer;
  if (getsockopt(caller, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
    return true; /* the caller is not known, so only the token is checked */
  return peer.uid == geteuid() || peer.uid == 0;
}

/* Returns the entry of a closed connection that never sent its token, or a new one; NULL if out of memory. */
static tri_speaker *new_speaker(tri_listener *listener) {
  for (size_t i = 0; listener->speakers != NULL && i < listener->count; i++) {
    if (listener->speakers[i].socket < 0 && !listener->speakers[i].known) return &listener->speakers[i];
  }
  if (tri_reserve("the ranks on the line", sizeof *listener->speakers, listener->count + 1, &listener->room,
                  &listener->speakers) != TRI_OK) {
    return NULL;
  }
  return &listener->speakers[listener->count++];
}

static void accept_connections(tri_listener *listener) {
  for (;;) {
    int caller = accept4(listener->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (caller < 0 && errno == EINTR) continue;
    if (caller < 0) {
      listener->full = errno != EAGAIN && errno != EWOULDBLOCK && errno != ECONNABORTED;
      return;
    }
    tri_speaker *speaker = is_own(caller) ? new_speaker(listener) : NULL;
    if (speaker == NULL) {
      close(caller); /* another user's process, or out of memory: the rank then leaves its error message in a file */
    } else {
      *speaker = (tri_speaker){.socket = caller, .rank = -1};
    }
  }
}

void tri_listener_hear(tri_listener *listener, const struct pollfd *polled, size_t count, tri_hearing hear,
                       void *context) {
  for (size_t i = 0; i + 1 < count; i++) {
    tri_speaker *speaker = &listener->speakers[i];
    if (polled[i].fd >= 0 && polled[i].revents != 0) hear_speaker(listener, speaker, hear, context);
    if (speaker->socket >= 0 && !speaker->known && speaker->silent_s > hello_s) hang_up(speaker);
  }
  if (polled[count - 1].revents != 0) accept_connections(listener);
}
