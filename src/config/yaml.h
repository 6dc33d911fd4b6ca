/* YAML text as a tree of nodes that know their file and line. config.h converts such a tree to structs.
 *
 * Only a part of YAML is supported: one document of mappings, lists and scalars. Anchors, aliases, tags and several
 * documents are refused by name, since in a run file they are usually mistakes. A tree has at most TRI_YAML_MAX_NODES
 * nodes, TRI_YAML_MAX_DEPTH deep, from at most TRI_YAML_MAX_BYTES of text per source. */
#ifndef TRI_CONFIG_YAML_H
#define TRI_CONFIG_YAML_H

#include "base/status.h"
#include "files/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { TRI_YAML_MAX_BYTES = 1 << 20, TRI_YAML_MAX_DEPTH = 16, TRI_YAML_MAX_NODES = 32768 };

typedef enum tri_yaml_kind { TRI_YAML_SCALAR, TRI_YAML_LIST, TRI_YAML_MAPPING } tri_yaml_kind;

typedef struct tri_yaml tri_yaml;
struct tri_yaml {
  tri_yaml_kind kind;
  bool quoted;        /* whether a scalar is in quotes; it is then a text even if it looks like a number */
  bool root;          /* whether this is the outermost node of its source */
  const char *text;   /* text of a scalar */
  const char *key;    /* key of an entry of a mapping; NULL elsewhere */
  const char *source; /* the file, or the text on the command line */
  int line;           /* line of the key in a mapping, otherwise of the value; 0: the source is a command-line option */
  tri_yaml *first, *last, *next; /* first and last child; next sibling */
};

/* Owns the nodes of any number of sources. */
typedef struct tri_yaml_tree tri_yaml_tree;

tri_status tri_yaml_create(tri_yaml_tree **out);
void tri_yaml_destroy(tri_yaml_tree *tree);

/* Parses a document from text[bytes] to *out, its outermost node, which the tree owns. Fails with TRI_BAD_CONFIG, with
 * the line, for bad or unsupported syntax, a text without any content, and a text or a tree above the limits. `source`
 * is copied. is_option: the text comes from the command line and has no line numbers. */
tri_status tri_yaml_parse(tri_yaml_tree *tree, const char *source, bool is_option, const char *text, size_t bytes,
                          tri_yaml **out);
/* Fails with TRI_BAD_FILE if the file does not exist and its folder has a file with a similar name, which the message
 * names. */
tri_status tri_yaml_look_for(const char *path);

/* Writes the end of a message about a missing file or folder: "; did you mean PATH?" with the nearest name in the same
 * folder, or "" if none is near. `ending` (".idx") is part of the file's name that the message does not show. Returns
 * out. */
enum { TRI_NEAREST_FILE_BYTES = TRI_PATH_BYTES + 32 };
const char *tri_yaml_nearest_file(const char *path, const char *ending, char out[TRI_NEAREST_FILE_BYTES]);
/* Reads a file of at most TRI_YAML_MAX_BYTES bytes and parses it as tri_yaml_parse does. The tree owns *out. The
 * message about a missing file suggests a file with a similar name (tri_yaml_look_for). */
tri_status tri_yaml_read(tri_yaml_tree *tree, const char *path, tri_yaml **out);

/* Makes a scalar with a copy of `text`, or an empty mapping if `text` is NULL. The tree owns it. The node gets the
 * source and line of `like`. */
tri_status tri_yaml_make(tri_yaml_tree *tree, const tri_yaml *like, const char *text, tri_yaml **out);

/* Returns mapping[key]; NULL if the mapping does not have the key, or if the node is not a mapping. */
tri_yaml *tri_yaml_find(const tri_yaml *mapping, const char *key);

/* Sets mapping[key] to a node that is not in a mapping, and replaces an existing node. `key` is copied. */
tri_status tri_yaml_put(tri_yaml_tree *tree, tri_yaml *mapping, const char *key, tri_yaml *value);

/* Removes mapping[key] if it exists. */
void tri_yaml_remove(tri_yaml *mapping, const char *key);

/* Returns whether a node is an empty value (`key:`), `~` or `null`. */
bool tri_yaml_is_null(const tri_yaml *node);

/* Returns whether a text is valid UTF-8 of printable characters on one line, which can be written in double quotes and
 * read back the same. */
bool tri_yaml_is_printable(const char *text);

/* Writes a text as a scalar: as it is if it reads like a path, a name or a number, otherwise in double quotes. */
void tri_yaml_write_text(const char *text, FILE *to);

/* Writes a node in YAML's flow form: "[a, b]", "{path: a, weight: 1.0}"; a scalar as it is, in quotes if it had
 * them. */
void tri_yaml_write_flow(const tri_yaml *node, FILE *to);

/* Records a failure as "SUBJECT at line 7 of FILE REST". For a node of an option it is "OPTION: SUBJECT REST", without
 * "OPTION: " if the source has no name. The format gives REST, and begins with a blank or a semicolon. Returns
 * TRI_BAD_CONFIG. */
tri_status tri_yaml_fail(const tri_yaml *node, const char *subject, const char *format, ...) TRI_PRINTF(3, 4);

/* Shortens a scalar's text for a message, on one line and as valid UTF-8. Returns buffer. */
enum { TRI_YAML_EXCERPT_BYTES = 72 };
char *tri_yaml_excerpt(const char *text, char buffer[TRI_YAML_EXCERPT_BYTES]);

#endif
