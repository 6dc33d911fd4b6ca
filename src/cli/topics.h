/* Kinds of files that users write, with the table of keys of each kind. They are the topics of `trireme help` and of
 * section 5 of the manual. */
#ifndef TRI_CLI_TOPICS_H
#define TRI_CLI_TOPICS_H

#include "config/config.h"

typedef struct tri_topic {
  const char *name;    /* such as "run"; NULL ends a list */
  const char *summary; /* one line */
  const char *about;   /* paragraphs, with an empty line between them */
  const char *example;
  const char *elsewhere; /* section whose keys another topic describes; NULL: none */
  const tri_config_table *(*table)(void);
} tri_topic;

/* Topics of every build, and the further topics of a build that runs models. */
extern const tri_topic tri_topics[], tri_topics_of_running[];

/* Returns the topic with an index in both lists together, tri_topics_of_running first; NULL after the last topic. */
const tri_topic *tri_topic_at(int index);
/* Returns the topic with a name; NULL if there is none. */
const tri_topic *tri_topic_find(const char *name);

#endif
