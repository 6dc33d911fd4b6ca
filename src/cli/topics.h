/* Files that users write, each with the table of its keys: the topics of `trireme help` and of the manual's section 5.
 */
#ifndef TRI_CLI_TOPICS_H
#define TRI_CLI_TOPICS_H

#include "config/config.h"

typedef struct tri_topic {
  const char *name;    /* "run"; NULL ends a list */
  const char *summary; /* one line */
  const char *about;   /* paragraphs, with an empty line between them */
  const char *example;
  const char *elsewhere; /* a section whose keys are described in their own topic; or NULL */
  const tri_config_table *(*table)(void);
} tri_topic;

/* The topics of a build that only plans; and those that a build which runs models has in addition. */
extern const tri_topic tri_topics[], tri_topics_of_running[];

/* Topic `index` of both lists; NULL after the last. */
const tri_topic *tri_topic_at(int index);
/* NULL: no topic has that name. */
const tri_topic *tri_topic_find(const char *name);

#endif
