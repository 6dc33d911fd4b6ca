# The headers' comments are plain; Doxygen reads those that are marked. The first is the file's, one behind a member is the
# member's, and lines that part sections are nobody's.
1s|^/\* |/** @file\n * |
/^\/\* ----/d
s|^/\* |/** |
s|\([^ ]\) */\* \(.*\) \*/$|\1 /**< \2 */|
# `typedef enum a {...} a;` would be two of one name to Sphinx.
s|^typedef enum \([a-z_]*\) {|enum \1 {|
s|^} [a-z_]*;$|};|
