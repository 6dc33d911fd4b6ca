/* Files that users write, each with the table of its keys: what `trireme help` and the manual's section 5 tell of. */
#ifndef TRI_CLI_TOPICS_H
#define TRI_CLI_TOPICS_H

#include "config/config.h"

typedef struct tri_topic {
  const char *name;    /* "run"; NULL ends a list */
  const char *summary; /* one line */
  const char *about;   /* paragraphs, with an empty line between them */
  const char *example;
  const char *elsewhere; /* a section that has a topic of its own, whose keys are told there; or NULL */
  const tri_config_table *(*table)(void);
} tri_topic;

/* Of a build that only plans, and what one that runs has beside them. */
extern const tri_topic tri_topics[], tri_topics_of_running[];

/* The index-th of both; NULL behind the last. */
const tri_topic *tri_topic_at(int index);
/* NULL: no topic has that name. */
const tri_topic *tri_topic_find(const char *name);

#endif
