#include "http/clients.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* Turn of a connection: the server waits for a request, works on the request, or waits until the client has received
 * the answer. */
typedef enum client_turn { TURN_REQUEST, TURN_OURS, TURN_ANSWER } client_turn;

struct tri_client {
  tri_clients *of;
  /* Neighbours in the list of all connections. */
  tri_client *before, *behind;
  int socket;
  client_turn turn;
  double since_s, until_s; /* begin and deadline of the present turn, on tri_clock_s */
  bool ended;              /* whether the connection's socket was shut down */
};

struct tri_clients {
  pthread_mutex_t mutex;
  pthread_cond_t wake;
  pthread_t thread;
  /* List of all connections; the newest is the first. */
  tri_client *first;
  tri_clients_limits limits;
  int count; /* number of connections whose socket was not shut down */
  /* Whether the thread has to end. */
  bool ends;
};

static void turn_to(tri_client *client, client_turn turn, double lasts_s) {
  client->turn = turn;
  client->since_s = tri_clock_s();
  client->until_s = client->since_s + lasts_s;
}

/* Shuts a connection's socket down, and counts the connection no longer. The mutex must be locked, so that no thread
 * closes the socket meanwhile. */
static void end_client(tri_clients *c, tri_client *client) {
  if (client->ended) return;
  (void)shutdown(client->socket, SHUT_RDWR);
  client->ended = true;
  c->count--;
}

static void *watch(void *argument) {
  tri_clients *c = argument;
  pthread_mutex_lock(&c->mutex);
  while (!c->ends) {
    struct timespec until;
    for (tri_client *client = c->first; client != NULL; client = client->behind) {
      if (tri_clock_s() > client->until_s) end_client(c, client);
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    (void)pthread_cond_timedwait(&c->wake, &c->mutex, &until);
  }
  pthread_mutex_unlock(&c->mutex);
  return NULL;
}

tri_status tri_clients_create(const tri_clients_limits *limits, tri_clients **out) {
  pthread_condattr_t attributes;
  tri_clients *c = NULL;
  TRI_TRY(tri_alloc("a server's connections", 1, sizeof *c, &c));
  c->limits = *limits;
  pthread_mutex_init(&c->mutex, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&c->wake, &attributes);
  pthread_condattr_destroy(&attributes);
  tri_status status = tri_thread_start("the thread that watches connections", watch, c, &c->thread);
  if (status == TRI_OK) {
    *out = c;
    return TRI_OK;
  }
  pthread_mutex_destroy(&c->mutex);
  pthread_cond_destroy(&c->wake);
  tri_free(c);
  return status;
}

void tri_clients_destroy(tri_clients *c) {
  if (c == NULL) return;
  pthread_mutex_lock(&c->mutex);
  c->ends = true;
  pthread_cond_signal(&c->wake);
  pthread_mutex_unlock(&c->mutex);
  pthread_join(c->thread, NULL);
  pthread_mutex_destroy(&c->mutex);
  pthread_cond_destroy(&c->wake);
  tri_free(c);
}

/* Returns the connection that the server has waited for longest: among those whose request it waits for, or if there
 * are none, among those that receive an answer. Returns NULL if the server waits for none. */
static tri_client *slowest(const tri_clients *c) {
  tri_client *found = NULL;
  for (tri_client *client = c->first; client != NULL; client = client->behind) {
    if (client->ended || client->turn == TURN_OURS) continue;
    const bool sooner = found == NULL ||
                        (client->turn == found->turn ? client->since_s < found->since_s : client->turn == TURN_REQUEST);
    if (sooner) found = client;
  }
  return found;
}

tri_client *tri_clients_add(tri_clients *c, int socket) {
  tri_client *client = NULL;
  if (tri_alloc("a connection", 1, sizeof *client, &client) != TRI_OK) return NULL;
  client->of = c;
  client->socket = socket;
  turn_to(client, TURN_REQUEST, c->limits.request_s);
  pthread_mutex_lock(&c->mutex);
  if (c->count >= c->limits.most) {
    tri_client *other = slowest(c);
    if (other != NULL) end_client(c, other);
  }
  client->behind = c->first;
  if (c->first != NULL) c->first->before = client;
  c->first = client;
  c->count++;
  pthread_mutex_unlock(&c->mutex);
  return client;
}

void tri_client_remove(tri_client *client) {
  if (client == NULL) return;
  tri_clients *c = client->of;
  pthread_mutex_lock(&c->mutex);
  if (!client->ended) c->count--;
  if (client->before != NULL) client->before->behind = client->behind;
  if (client->behind != NULL) client->behind->before = client->before;
  if (c->first == client) c->first = client->behind;
  pthread_mutex_unlock(&c->mutex);
  tri_free(client);
}

/* Starts a turn of a connection, and sets its deadline: limits.request_s for a request; limits.answer_s plus the time
 * for `bytes` bytes at the slowest rate for an answer; none while the server works. */
static void set_turn(tri_client *client, client_turn turn, double bytes) {
  if (client == NULL) return;
  const tri_clients_limits *limits = &client->of->limits;
  double lasts_s = INFINITY;
  switch (turn) {
    case TURN_REQUEST: lasts_s = limits->request_s; break;
    case TURN_OURS: break;
    case TURN_ANSWER: lasts_s = limits->answer_s + bytes / limits->slowest_bytes_s; break;
  }
  pthread_mutex_lock(&client->of->mutex);
  turn_to(client, turn, lasts_s);
  pthread_mutex_unlock(&client->of->mutex);
}

void tri_client_receive(tri_client *client, size_t bytes) {
  if (client == NULL) return;
  pthread_mutex_lock(&client->of->mutex);
  if (client->turn == TURN_REQUEST) client->until_s += (double)bytes / client->of->limits.slowest_bytes_s;
  pthread_mutex_unlock(&client->of->mutex);
}

void tri_client_think(tri_client *client) { set_turn(client, TURN_OURS, 0); }

void tri_client_answer(tri_client *client, size_t bytes) { set_turn(client, TURN_ANSWER, (double)bytes); }

void tri_client_wait(tri_client *client) { set_turn(client, TURN_REQUEST, 0); }
