/* Connections of a server: a connection is ended when its time is over; if there are too many, the one that
 * the server has waited for longest is ended. */
#include "http/clients.h"

#include "check.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

static const tri_clients_limits for_ever = {.most = 2, .request_s = 1e6, .answer_s = 1e6, .slowest_bytes_s = 1};

typedef struct pair {
  int ends[2];
  tri_client *client;
} pair;

static pair connect_to(tri_clients *clients) {
  pair p;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p.ends), 0);
  p.client = tri_clients_add(clients, p.ends[0]);
  assert_non_null(p.client);
  return p;
}

/* Waits until the connection is ended. */
static bool is_ended(const pair *p) {
  char byte;
  return recv(p->ends[1], &byte, 1, 0) == 0;
}

static bool is_open(const pair *p) {
  char byte;
  return recv(p->ends[1], &byte, 1, MSG_DONTWAIT) < 0;
}

static void leave(pair *p) {
  tri_client_remove(p->client);
  close(p->ends[0]);
  close(p->ends[1]);
}

static void test_room(void **state) {
  tri_clients *clients = NULL;
  (void)state;
  CHECK_OK(tri_clients_create(&for_ever, &clients));
  pair thinks = connect_to(clients), answered = connect_to(clients);
  tri_client_think(thinks.client);
  tri_client_answer(answered.client, 100);
  pair third = connect_to(clients); /* the server waits only for the client that receives an answer */
  assert_true(is_ended(&answered) && is_open(&thinks) && is_open(&third));
  pair fourth = connect_to(clients);
  assert_true(is_ended(&third) && is_open(&thinks) && is_open(&fourth));
  leave(&fourth);
  pair fifth = connect_to(clients); /* there is room */
  assert_true(is_open(&thinks) && is_open(&fifth));
  tri_client_wait(thinks.client); /* from now on, so the server has waited longer for the other */
  pair sixth = connect_to(clients);
  assert_true(is_ended(&fifth) && is_open(&thinks) && is_open(&sixth));
  pair *left[] = {&thinks, &answered, &third, &fifth, &sixth};
  for (size_t i = 0; i < sizeof left / sizeof *left; i++) leave(left[i]);
  tri_clients_destroy(clients);
}

static void test_deadlines(void **state) {
  const tri_clients_limits short_requests = {.most = 9, .request_s = 0.5, .answer_s = 1e6, .slowest_bytes_s = 1},
                           short_answers = {.most = 9, .request_s = 1e6, .answer_s = 0.5, .slowest_bytes_s = 1e4};
  tri_clients *clients = NULL;
  (void)state;
  CHECK_OK(tri_clients_create(&short_requests, &clients));
  pair answered = connect_to(clients), asks = connect_to(clients);
  tri_client_answer(answered.client, 1);
  assert_true(is_ended(&asks) && is_open(&answered));
  tri_client_wait(answered.client);
  assert_true(is_ended(&answered));
  leave(&answered);
  leave(&asks);
  tri_clients_destroy(clients);
  CHECK_OK(tri_clients_create(&short_answers, &clients));
  pair small = connect_to(clients), large = connect_to(clients), thinks = connect_to(clients);
  tri_client_answer(large.client, (size_t)1 << 40);
  tri_client_think(thinks.client);
  tri_client_answer(small.client, 100);
  assert_true(is_ended(&small) && is_open(&large) && is_open(&thinks));
  leave(&small);
  leave(&large);
  leave(&thinks);
  tri_clients_destroy(clients);
}

/* A body extends the time for a request by its bytes, and single bytes hardly extend it. */
static void test_bodies(void **state) {
  const tri_clients_limits limits = {.most = 9, .request_s = 0.5, .answer_s = 1e6, .slowest_bytes_s = 1000};
  tri_clients *clients = NULL;
  (void)state;
  CHECK_OK(tri_clients_create(&limits, &clients));
  pair sends = connect_to(clients), drips = connect_to(clients);
  tri_client_receive(sends.client, 1000000);
  tri_client_receive(drips.client, 1);
  assert_true(is_ended(&drips) && is_open(&sends));
  tri_client_wait(sends.client); /* the next request has a time of its own */
  assert_true(is_ended(&sends));
  leave(&sends);
  leave(&drips);
  tri_clients_destroy(clients);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_room), cmocka_unit_test(test_deadlines),
                                     cmocka_unit_test(test_bodies)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
