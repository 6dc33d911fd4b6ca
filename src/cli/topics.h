/* Kinds of files that users write, each with the table of its keys: the topics of `trireme help` and of section 5 of
 * the manual. */
#ifndef TRI_CLI_TOPICS_H
#define TRI_CLI_TOPICS_H

#include "config/config.h"

typedef struct tri_topic {
  const char *name;    /* "run"; NULL ends a list */
  const char *summary; /* one line */
  const char *about;   /* paragraphs, with an empty line between them */
  const char *example;
  const char *elsewhere; /* section whose keys are described in a topic of their own; NULL: none */
  const tri_config_table *(*table)(void);
} tri_topic;

/* Topics of every build, and further topics of a build that runs models. */
extern const tri_topic tri_topics[], tri_topics_of_running[];

/* Returns topic `index` of both lists; NULL after the last. */
const tri_topic *tri_topic_at(int index);
/* Returns the topic with that name; NULL if there is none. */
const tri_topic *tri_topic_find(const char *name);

#endif
